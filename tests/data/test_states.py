from drivetrain.data.states import load_states, states_of


class Kept:
    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> int:
        return self.value

    def load_state_dict(self, value: int) -> None:
        self.value = value


def test_only_what_has_both_methods_has_state() -> None:
    things = [Kept(1), object(), Kept(2)]
    assert states_of(things) == [1, None, 2]
    others = [Kept(0), object(), Kept(0)]
    load_states(others, [1, None, 2])
    assert states_of(others) == [1, None, 2]
