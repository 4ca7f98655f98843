from __future__ import annotations

import pytest

import drivetrain as dt
from drivetrain.events import HOOKS, Dispatcher
from tests.loops.models import Regression, loader, quiet


def test_functions_are_called_as_hooks(tmp_path) -> None:
    seen: list[object] = []
    names = [name for name, hook in HOOKS.items() if hook.on_callback and name != "on_exception"]
    functions = {name: lambda *got, name=name: seen.append((name, len(got))) for name in names}
    saves = dt.ModelCheckpoint(tmp_path)
    trainer = quiet(max_epochs=1, callbacks=[dt.LambdaCallback(**functions), saves])
    trainer.fit(Regression(), loader(), loader())
    trainer.test(Regression(), loader(), ckpt_path="last")
    trainer.predict(Regression(), loader())
    expected = {(name, 2 + len(HOOKS[name].arguments)) for name in names if "sanity" not in name}
    assert expected <= set(seen)


def test_a_function_gets_trainer_and_module_and_may_leave_the_loaders_number_out() -> None:
    seen: list[object] = []
    callback = dt.LambdaCallback(
        on_train_start=lambda trainer, module: seen.append((trainer.global_step, type(module).__name__)),
        on_test_batch_start=lambda trainer, module, batch, batch_idx: seen.append(batch_idx),
        on_train_end=None,
    )
    trainer = quiet(max_epochs=1, callbacks=[callback])
    trainer.fit(Regression(), loader())
    trainer.test(Regression(), loader(8))
    assert seen == [(0, "Regression"), 0, 1]


def test_what_is_not_given_is_not_called() -> None:
    events = Dispatcher(None, dt.Module(), [dt.LambdaCallback(on_fit_start=lambda trainer, module: None)])
    assert len(events.calls("on_fit_start")) == 1
    assert events.calls("on_train_batch_end") == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on_train_strat": print}, "did you mean on_train_start=...?"),
        ({"training_step": print}, "callback.bad-argument"),
        ({"on_train_start": "begin"}, r"a function of \(trainer, module\)"),
        ({"on_train_start": lambda trainer: None}, r"a function of \(trainer, module\)"),
        (
            {"on_train_batch_end": lambda trainer, module, batch: None},
            "lambda trainer, module, outputs, batch",
        ),
    ],
)
def test_other_names_and_functions_are_refused(given: dict, message: str) -> None:
    with pytest.raises(dt.ModuleError, match=message.replace("?", r"\?")):
        dt.LambdaCallback(**given)
