from __future__ import annotations

import pytest

import drivetrain as dt


def test_rates_are_those_of_the_window() -> None:
    one = dt.Throughput(available_flops=100.0, window_size=3)
    assert one.compute() == {}
    one.update(time=1.0, batches=1, samples=4, lengths=40, flops=999.0)
    assert one.compute() == {"time": 1.0, "batches": 1, "samples": 4, "lengths": 40}
    one.update(time=2.0, batches=2, samples=8, lengths=80, flops=50.0)
    one.update(time=4.0, batches=3, samples=12, lengths=120, flops=50.0)
    one.update(time=6.0, batches=4, samples=14, lengths=200, flops=90.0)
    assert one.compute() == {
        "time": 6.0,
        "batches": 4,
        "samples": 14,
        "lengths": 200,
        "device/batches_per_sec": 0.5,
        "device/samples_per_sec": 1.5,
        "device/items_per_sec": 30.0,
        "device/flops_per_sec": 35.0,
        "device/mfu": 0.35,
    }
    one.reset()
    assert one.compute() == {}


def test_several_devices_do_as_much_each() -> None:
    two = dt.Throughput(available_flops=10.0, world_size=2, separator=".")
    two.update(time=0.0, batches=1, samples=2, flops=20.0)
    two.update(time=1.0, batches=2, samples=4, flops=20.0)
    found = two.compute()
    assert found == {
        "time": 1.0,
        "batches": 2,
        "samples": 4,
        "device.batches_per_sec": 1.0,
        "device.samples_per_sec": 2.0,
        "device.flops_per_sec": 10.0,
        "device.mfu": 1.0,
        "batches_per_sec": 2.0,
        "samples_per_sec": 4.0,
        "flops_per_sec": 20.0,
    }


def test_what_there_has_been_grows_and_lengths_come_always_or_never() -> None:
    one = dt.Throughput()
    one.update(time=2.0, batches=1, samples=4, lengths=3)
    for wrong, says in (
        ({"time": 1.0}, "time=1.0"),
        ({"samples": 3}, "at least 4, as before"),
        ({"lengths": None}, "given each time, or never"),
    ):
        with pytest.raises(dt.ModuleError, match=r"callback.bad-argument") as caught:
            one.update(**{"time": 3.0, "batches": 2, "samples": 8, "lengths": 6, **wrong})
        assert says in str(caught.value)
    one.update(time=2.0, batches=2, samples=8, lengths=6)
    assert one.rates() == {}


def test_its_state_is_plain_and_complete() -> None:
    one, other = dt.Throughput(), dt.Throughput()
    one.update(time=1.0, batches=1, samples=4, flops=2.0)
    one.update(time=3.0, batches=2, samples=8, flops=2.0)
    other.load_state_dict(one.state_dict())
    assert other.compute() == one.compute()
    assert one.state_dict()["window"][0] == {
        "time": 1.0,
        "batches": 1,
        "samples": 4,
        "lengths": None,
        "flops": 2.0,
    }


@pytest.mark.parametrize(
    "given", [{"available_flops": 0}, {"world_size": 0}, {"window_size": 1}, {"separator": 3}]
)
def test_arguments_are_checked(given: dict) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument"):
        dt.Throughput(**given)
