from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

LAYERS = (0, 3)


class Rows(dt.Logger):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "rows"

    @property
    def version(self) -> str:
        return "0"

    def log_hyperparams(self, params: Any, metrics: Any = None) -> None:
        """Keep nothing."""

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))

    def of(self, name: str) -> list[tuple[int | None, float]]:
        return [(step, values[name]) for step, values in self.rows if name in values]


class Told(Regression):
    """Has the optimizers that it is told."""

    configure: Any

    def configure_optimizers(self) -> Any:
        return self.configure(self)


def told(configure: Any) -> Told:
    module = Told()
    module.configure = configure
    return module


def groups(module: Regression, *names: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, name in zip(LAYERS, names, strict=True):
        own = {} if name is None else {"name": name}
        found.append({"params": module.net[index].parameters(), **own})
    return found


def halving(optimizer: torch.optim.Optimizer, **said: Any) -> dict[str, Any]:
    return {"scheduler": LambdaLR(optimizer, lambda count: 0.5**count), **said}


def run(configure: Any, logging_interval: Any = None, **said: Any) -> tuple[dt.LearningRateMonitor, Rows]:
    """Two epochs of five steps; returns the callback and what was logged."""
    given = {name: said.pop(name) for name in ("log_momentum", "log_weight_decay") if name in said}
    monitor, rows = dt.LearningRateMonitor(logging_interval, **given), Rows()
    settings = {"max_epochs": 2, "log_every_n_steps": 2, "logger": rows, "callbacks": [monitor], **said}
    quiet(**settings).fit(told(configure), loader(20))
    return monitor, rows


def by_step(module: Regression) -> Any:
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    return [optimizer], [halving(optimizer, interval="step")]


def test_a_step_is_logged_in_its_row_with_the_rate_that_it_was_taken_with() -> None:
    used: list[float] = []

    class Watch(dt.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            used.append(optimizer.param_groups[0]["lr"])

    monitor, rows = dt.LearningRateMonitor(), Rows()
    quiet(max_epochs=2, log_every_n_steps=2, logger=rows, callbacks=[monitor, Watch()]).fit(
        told(by_step), loader(20)
    )
    assert used == [0.5**step for step in range(10)]
    assert rows.of("lr-SGD") == [(step, used[step - 1]) for step in (2, 4, 6, 8, 10)]
    assert monitor.lrs == {"lr-SGD": [lr for _, lr in rows.of("lr-SGD")]}


@pytest.mark.parametrize("logger", [False, None])
def test_the_newest_rates_are_among_the_metrics_that_callbacks_see(logger: Any) -> None:
    seen: list[float | None] = []

    class Watch(dt.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            found = trainer.callback_metrics.get("lr-SGD")
            seen.append(None if found is None else found.item())

    trainer = quiet(
        max_epochs=1,
        log_every_n_steps=2,
        logger=logger if logger is not None else Rows(),
        callbacks=[dt.LearningRateMonitor(log_momentum=True), Watch()],
    )
    result = trainer.fit(told(by_step), loader(20))
    assert seen == [None, 0.5, 0.5, 0.5**3, 0.5**3]
    assert result.metrics["lr-SGD"] == 0.5**3
    assert result.metrics["lr-SGD-momentum"] == 0.0


def test_with_accumulation_steps_are_what_is_counted() -> None:
    _, rows = run(by_step, accumulate_grad_batches=2)
    assert rows.of("lr-SGD") == [(2, 0.5), (4, 0.5**3), (6, 0.5**5)]


def test_an_interval_is_each_schedulers_own_unless_said() -> None:
    def by_epoch(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        return [optimizer], [halving(optimizer)]

    def alone(module):
        return torch.optim.SGD(module.parameters(), lr=1.0)

    at_epochs, at_steps = [(0, 1.0), (5, 0.5)], [(2, 1.0), (4, 1.0), (6, 0.5), (8, 0.5), (10, 0.5)]
    assert run(by_epoch)[1].of("lr-SGD") == at_epochs
    assert run(by_epoch, "epoch")[1].of("lr-SGD") == at_epochs
    assert run(by_epoch, "step")[1].of("lr-SGD") == at_steps
    assert run(by_step, "epoch")[1].of("lr-SGD") == [(0, 1.0), (5, 0.5**5)]
    assert [step for step, _ in run(alone)[1].of("lr-SGD")] == [0, 2, 4, 5, 6, 8, 10]


@pytest.mark.parametrize(
    ("configure", "names"),
    [
        (lambda m: torch.optim.AdamW(groups(m, None, None)), ["lr-AdamW/pg1", "lr-AdamW/pg2"]),
        (lambda m: torch.optim.AdamW(groups(m, "low", None)), ["lr-AdamW/low", "lr-AdamW/pg2"]),
        (lambda m: torch.optim.AdamW([{"params": m.parameters(), "name": "all"}]), ["lr-AdamW/all"]),
        (
            lambda m: [torch.optim.AdamW(m.net[index].parameters()) for index in LAYERS],
            ["lr-AdamW", "lr-AdamW-1"],
        ),
        (
            lambda m: [kind(m.net[0].parameters(), lr=0.1) for kind in (torch.optim.SGD, torch.optim.AdamW)],
            ["lr-SGD", "lr-AdamW"],
        ),
    ],
)
def test_names(configure: Any, names: list[str]) -> None:
    monitor, rows = run(configure)
    assert [*monitor.lrs] == names
    assert all(rows.of(name) for name in names)


def test_a_schedulers_name_stands_in_front() -> None:
    def named(module):
        first = torch.optim.SGD(groups(module, None, "top"), lr=1.0)
        second = torch.optim.SGD(module.net[0].parameters(), lr=1.0)
        return [first, second], [halving(first, name="mine"), halving(second)]

    assert [*run(named)[0].lrs] == ["mine/pg1", "mine/top", "lr-SGD"]


def test_momentum_and_weight_decay() -> None:
    def two(module):
        return [
            torch.optim.AdamW(module.net[0].parameters(), betas=(0.7, 0.9), weight_decay=0.3),
            torch.optim.SGD(module.net[3].parameters(), lr=0.1, momentum=0.6),
        ]

    monitor, rows = run(two, log_momentum=True, log_weight_decay=True)
    assert monitor.last_momentum_values == {"lr-AdamW-momentum": 0.7, "lr-SGD-momentum": 0.6}
    assert monitor.last_weight_decay_values == {"lr-AdamW-weight_decay": 0.3, "lr-SGD-weight_decay": 0.0}
    assert rows.of("lr-SGD-momentum")[0] == (0, 0.6)
    assert [*monitor.lrs] == ["lr-AdamW", "lr-SGD"]


def test_groups_that_come_later_have_names_from_then_on() -> None:
    class Adds(dt.Callback):
        def on_train_epoch_start(self, trainer, module):
            if trainer.current_epoch == 1:
                trainer.optimizers[0].add_param_group({"params": module.net[3].parameters(), "lr": 9.0})

    monitor = dt.LearningRateMonitor("epoch")
    quiet(max_epochs=3, callbacks=[Adds(), monitor]).fit(
        told(lambda module: torch.optim.SGD(module.net[0].parameters(), lr=1.0)), loader(20)
    )
    assert monitor.lrs == {"lr-SGD/pg1": [1.0, 1.0, 1.0], "lr-SGD/pg2": [9.0, 9.0]}


def test_one_name_twice_and_other_arguments_are_refused() -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.group-names.*AdamW have the name 'low'"):
        run(lambda module: torch.optim.AdamW(groups(module, "low", "low")))
    for given in ({"logging_interval": "batch"}, {"log_momentum": 1}, {"log_weight_decay": "yes"}):
        with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*LearningRateMonitor"):
            dt.LearningRateMonitor(**given)
