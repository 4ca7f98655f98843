"""zero1 on two ranks: what ddp does, bit for bit, with a part of the optimizers' state on each rank."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as rates

import drivetrain as dt
from drivetrain.base.tree import leaves
from drivetrain.data.stream import IndexStream
from tests.callbacks.test_weight_averaging import Normed, SaveAt
from tests.loops.models import Noisy, Regression, data, differing, loader, quiet
from tests.loops.steps import Adversarial, ByHand, Several, assert_close
from tests.ranks.test_changing import Unfreezing
from tests.tuner.sized import Sized

pytestmark = pytest.mark.ranks

TWO = {"devices": 2, "strategy": "zero1"}


class Kept(dt.Callback):
    """Keeps each step's loss and learning rates, and the elements of each rank's optimizers' state."""

    is_last = True

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.rates: list[list[float]] = []
        self.elements: list[int] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(trainer.callback_metrics.get("loss", 0.0)))
        self.rates.append([group["lr"] for one in trainer.optimizers for group in one.param_groups])

    def on_train_end(self, trainer, module):
        assert sum(len(group["params"]) for one in trainer.optimizers for group in one.param_groups) > 2
        self.elements = trainer.collectives.all_gather_object(
            sum(elements(one.state) for one in trainer.optimizers)
        )


def elements(state: Any) -> int:
    tensors = [leaf for one in state.values() for _, leaf in leaves(one) if isinstance(leaf, torch.Tensor)]
    return sum(one.numel() for one in tensors)


def fit(module: Regression, path: Path, strategy: str, **given: Any) -> tuple[dict[str, Any], Kept]:
    """Fit ten steps of eight samples, save after it, and return the checkpoint."""
    kept, callbacks = Kept(), copy.deepcopy(given.pop("callbacks", []))
    ranks = {"devices": 2, "strategy": strategy} if strategy != "single" else {"strategy": strategy}
    trainer = quiet(
        **{"max_epochs": 2, "log_every_n_steps": 1, **ranks, "callbacks": [*callbacks, kept], **given}
    )
    trainer.fit(module, loader(40, shuffle=True), loader(10))
    trainer.save_checkpoint(path)
    return torch.load(path, weights_only=True), kept


def without_plan(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in checkpoint.items() if name != "plan"}


def groups(module: Any, kind: Any = torch.optim.AdamW) -> torch.optim.Optimizer:
    return kind(
        [
            {"params": module.net[0].parameters(), "lr": 0.02},
            {"params": [module.net[3].weight], "lr": 0.005},
            {"params": [module.net[3].bias], "lr": 0.001},
        ],
        lr=0.01,
    )


def momentum(module: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduled(
    make: Callable[[Any], Any], interval: str = "step", monitor: str | None = None
) -> Callable[[Any], Any]:
    def configure(module: Any) -> Any:
        optimizer = groups(module, torch.optim.RAdam)
        entry = {"scheduler": make(optimizer), "interval": interval}
        return {"optimizer": optimizer, "lr_scheduler": entry | ({"monitor": monitor} if monitor else {})}

    return configure


class ClosureGiven(Regression):
    """Steps with the closure itself, so that gradients are computed and clipped within the step."""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)


class Looking(Regression):
    """Looks at all parameters in a hook of its own after each step, which was there before the strategy's."""

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        self.register_buffer("seen", torch.zeros(1))

        def look(one: Any, *_: Any) -> None:
            parameters = [each for group in one.param_groups for each in group["params"]]
            self.seen += sum(each.detach().sum() for each in parameters) + len(parameters)

        optimizer.register_step_post_hook(look)
        return optimizer


def made(make: Callable[[Any], Any]) -> Callable[[], Regression]:
    """Return a module whose optimizers are handed in."""
    return type("Made", (Regression,), {"configure_optimizers": make})


WAYS: dict[str, tuple[Callable[[], Regression], dict[str, Any]]] = {
    "AdamW": (Regression, {}),
    "momentum, norm clipped": (made(momentum), {"gradient_clip_val": 0.3}),
    "groups, value clipped": (
        made(groups),
        {"gradient_clip_val": 0.05, "gradient_clip_algorithm": "value"},
    ),
    "closure, clipped": (ClosureGiven, {"gradient_clip_val": 0.3}),
    "state from the start": (made(lambda module: torch.optim.Adagrad(module.parameters(), lr=0.05)), {}),
    "factored": (made(lambda module: torch.optim.Adafactor(module.parameters(), lr=0.05)), {}),
    "tensor rate, one by one": (
        made(lambda module: torch.optim.Adam(module.parameters(), lr=torch.tensor(0.01), foreach=False)),
        {},
    ),
    "own hook": (Looking, {}),
    "StepLR": (made(scheduled(lambda one: rates.StepLR(one, 3))), {}),
    "by epochs": (made(scheduled(lambda one: rates.ExponentialLR(one, 0.5), "epoch")), {}),
    "OneCycle, moving momentum": (
        made(scheduled(lambda one: rates.OneCycleLR(one, 0.05, total_steps=10))),
        {},
    ),
    "plateau": (
        made(scheduled(lambda one: rates.ReduceLROnPlateau(one, patience=0, threshold=1e9), "epoch", "val")),
        {},
    ),
    "one after the other": (
        made(
            scheduled(
                lambda one: rates.SequentialLR(
                    one, [rates.LinearLR(one, total_iters=3), rates.CosineAnnealingLR(one, 7)], [3]
                )
            )
        ),
        {},
    ),
    "several optimizers": (Several, {}),
    "a step for each optimizer": (Adversarial, {}),
    "by hand": (ByHand, {}),
    "bf16-mixed": (Regression, {"precision": "bf16-mixed"}),
    "averaged": (Regression, {"callbacks": [dt.EMAWeightAveraging(decay=0.8)]}),
    "SWA": (Regression, {"callbacks": [dt.StochasticWeightAveraging(0.02, 1, 1)]}),
    "frozen and added": (Unfreezing, {}),
}


OTHERWISE = ("a step for each optimizer", "by hand", "bf16-mixed", "own hook", "frozen and added")
"""With two batches a step one process does something else; that ddp is right is tested beside this file."""


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_that_of_ddp_and_within_rounding_that_of_one_process(tmp_path: Path, way: str) -> None:
    make, given = WAYS[way]
    found, kept = fit(make(), tmp_path / "zero1.ckpt", "zero1", **given)
    expected, whole = fit(make(), tmp_path / "ddp.ckpt", "ddp", **given)

    assert not differing(without_plan(found), without_plan(expected))
    assert (kept.losses, kept.rates) == (whole.losses, whole.rates)
    assert len(kept.losses) == 10
    assert sum(kept.elements) == whole.elements[0] == whole.elements[1]
    if way not in OTHERWISE:
        joint, _ = fit(make(), tmp_path / "single.ckpt", "single", **given, accumulate_grad_batches=2)
        for name, value in joint["state_dict"].items():
            torch.testing.assert_close(found["state_dict"][name], value, atol=2e-6, rtol=0)


class Wide(Regression):
    """Of many sizes, so that halves are about even."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            *(
                part
                for _ in range(6)
                for part in (torch.nn.Linear(4, 30), torch.nn.Tanh(), torch.nn.Linear(30, 4))
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[:, :1]


class WideGroups(Wide):
    def configure_optimizers(self) -> Any:
        first, second = list(self.net[:6].parameters()), list(self.net[6:].parameters())
        return [torch.optim.AdamW([{"params": first[:3]}, {"params": first[3:]}]), torch.optim.AdamW(second)]


@pytest.mark.parametrize("kind", [Wide, WideGroups])
def test_each_rank_has_half_of_the_state_and_the_caller_all_of_it_after(tmp_path: Path, kind: Any) -> None:
    module = kind()
    found, kept = fit(module, tmp_path / "a.ckpt", "zero1")
    whole = 2 * sum(one.numel() for one in module.parameters())
    counters = len(list(module.parameters()))
    assert sum(kept.elements) == whole + counters
    for each in kept.elements:
        assert each == pytest.approx(whole / 2, rel=0.03)
    assert sum(elements(one["state"]) for one in found["optimizer_states"]) == whole + counters
    _, kept = fit(kind(), tmp_path / "b.ckpt", "ddp")
    assert kept.elements == [whole + counters] * 2


class Drawn(Normed):
    """Dropout and running statistics, and a momentum that goes up and down with the rate."""

    def configure_optimizers(self) -> Any:
        return scheduled(lambda one: rates.OneCycleLR(one, 0.05, total_steps=18))(self)


def run(path: Path, strategy: str = "zero1", *callbacks: dt.Callback, **given: Any) -> dict[str, Any]:
    """Fit three epochs over data that is drawn; return the checkpoint after it."""
    trainer = quiet(
        devices=2, strategy=strategy, max_epochs=3, log_every_n_steps=1, callbacks=list(callbacks)
    )
    batches = torch.utils.data.DataLoader(Noisy(), 4, shuffle=True)
    trainer.fit(Drawn(), batches, loader(10), **given)
    trainer.save_checkpoint(path)
    return torch.load(path, weights_only=True)


def test_a_run_that_was_cut_off_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "cut.ckpt"
    whole = run(tmp_path / "whole.ckpt", "zero1", SaveAt(path, 8))
    resumed = run(tmp_path / "resumed.ckpt", ckpt_path=path)
    assert not differing(whole, resumed)
    for strategy in ("ddp", "zero1"):  # what either saved, within the fit, the other goes on from
        other = run(tmp_path / "other.ckpt", strategy, SaveAt(path, 8))
        there = run(tmp_path / "there.ckpt", "ddp" if strategy == "zero1" else "zero1", ckpt_path=path)
        assert not differing(without_plan(other), without_plan(there))
        assert not differing(without_plan(other), without_plan(whole))


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adagrad])
def test_two_ranks_one_and_two_again_lose_nothing(tmp_path: Path, kind: Any) -> None:
    cut, again = tmp_path / "cut.ckpt", tmp_path / "again.ckpt"
    settings = {"max_epochs": 2, "log_every_n_steps": 1}
    data_of_40 = loader(40, shuffle=True)
    first = made(lambda module: groups(module, kind))
    quiet(**TWO, **settings, callbacks=[SaveAt(cut, 2)]).fit(first(), data_of_40)  # 16 samples
    middle = quiet(**settings, callbacks=[SaveAt(again, 4)])  # 8 more, one batch at a time
    middle.fit(first(), data_of_40, ckpt_path=cut)
    module = first()
    result = quiet(**TWO, **settings).fit(module, data_of_40, ckpt_path=again)
    assert result.samples == 80

    by_hand = first()
    optimizer, samples = groups(by_hand, kind), data(40)
    order = [
        index
        for epoch in range(2)
        for batch in IndexStream(data_of_40, seed=0).epoch(epoch, 0, None)
        for index in batch
    ]
    steps, at = [8, 8, 4, 4, *[8] * 7], 0
    for size in steps:
        optimizer.zero_grad()
        by_hand.loss(samples[order[at : at + size]]).backward()
        optimizer.step()
        at += size
    assert at == 80
    assert_close(module, by_hand)


class Frozen(Regression):
    """Has its first layer frozen, and in the optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.net[0].requires_grad_(False)


class FrozenFromTheStart(Frozen):
    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(self.parameters(), lr=0.05)


def test_state_of_what_is_frozen_is_kept(tmp_path: Path) -> None:
    made = [
        fit(FrozenFromTheStart(), tmp_path / "made.ckpt", one)[0]["optimizer_states"]
        for one in ("zero1", "ddp")
    ]
    assert len(made[0][0]["state"]) == 4
    assert not differing(*made)

    first, found = tmp_path / "first.ckpt", []
    fit(Regression(), first, "zero1")
    for strategy in ("zero1", "ddp"):
        trainer = quiet(devices=2, strategy=strategy, max_epochs=3)
        trainer.fit(Frozen(), loader(40, shuffle=True), ckpt_path=first)
        trainer.save_checkpoint(tmp_path / "second.ckpt")
        found.append(torch.load(tmp_path / "second.ckpt", weights_only=True)["optimizer_states"])
    assert len(found[0][0]["state"]) == 4
    assert not differing(*found)


def test_verify_resume_finds_the_run_exact() -> None:
    batches = torch.utils.data.DataLoader(Noisy(), 4, shuffle=True)
    report = quiet(**TWO, max_epochs=2, callbacks=[dt.EMAWeightAveraging(decay=0.9)]).verify_resume(
        Drawn(), batches, steps=8
    )
    assert report.is_exact, report


def test_the_other_verbs_are_those_of_a_whole_model() -> None:
    module = Regression()
    trainer = quiet(**TWO, max_epochs=1)
    trainer.fit(module, loader(40), loader(10))
    alone = quiet()
    for verb in ("validate", "test"):
        assert getattr(trainer, verb)(module, loader(9))[0] == pytest.approx(
            getattr(alone, verb)(module, loader(9))[0]
        )
    predictions = trainer.predict(module, loader(5, 2))
    torch.testing.assert_close(torch.cat(predictions), data(5)[:][0][:, 0])


class Grouped(torch.optim.SGD):
    """Scales its steps by what it has found in all of its gradients."""

    def __init__(self, parameters: Any, lr: float = 0.1) -> None:
        super().__init__(parameters, lr=lr)
        self.param_groups[0]["found"] = 0.0

    def step(self, closure: Any = None) -> Any:
        self.param_groups[0]["found"] += sum(
            float(one.grad.abs().sum()) for group in self.param_groups for one in group["params"]
        )
        return super().step(closure)


class Failing(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.global_rank == 1 and batch_idx == 2:
            raise ValueError("bad label")
        return super().training_step(batch, batch_idx)


def test_what_cannot_be_shared_out_is_refused(tmp_path: Path) -> None:
    for kind in (torch.optim.LBFGS, Grouped):
        module = made(lambda module, kind=kind: kind(module.parameters(), lr=0.1))
        with pytest.raises(
            dt.ModuleError, match=rf"strategy.joint-optimizer\] {kind.__name__} cannot be shared"
        ) as raised:
            quiet(**TWO, max_epochs=1).fit(module(), loader(40))
        assert "strategy='ddp'" in str(raised.value)
        quiet(devices=1, strategy="zero1", max_epochs=1).fit(module(), loader(40))  # one rank has it all
    assert "found" in str(raised.value)


def test_after_a_rank_has_failed_the_weights_are_there_and_the_state_is_not(
    tmp_path: Path, capsys: Any
) -> None:
    module, path = Failing(), tmp_path / "a.ckpt"
    weights = dt.ModelCheckpoint(tmp_path / "weights", save_weights_only=True, save_on_exception=True)
    trainer = quiet(**TWO, max_epochs=1, callbacks=[dt.OnExceptionCheckpoint(tmp_path, "crash"), weights])
    with pytest.raises(dt.RankFailure, match="bad label"):
        trainer.fit(module, loader(40))
    assert "nothing is saved, since each rank holds a part" in capsys.readouterr().err
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.in-parts\] the state of AdamW"):
        trainer.save_checkpoint(path)
    trainer.save_checkpoint(path, weights_only=True)
    (rescued,) = (tmp_path / "weights").iterdir()
    for one in (path, rescued):
        assert not differing(torch.load(one, weights_only=True)["state_dict"], dict(module.state_dict()))


class Overflowing(Regression):
    """One parameter's gradient overflows on one rank; its owner is not told before the others step."""

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        return loss + self.net[0].bias.sum() * torch.inf if batch_idx == 3 and self.global_rank else loss


class OverflowingByHand(Overflowing):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer = self.optimizers()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", [Overflowing, OverflowingByHand])
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-true"])
def test_short_formats_are_those_of_ddp_also_where_one_gradient_overflows(
    tmp_path: Path, kind: type[Regression], precision: str
) -> None:
    found, expected = (
        fit(
            kind() if precision == "16-mixed" else Regression(),
            tmp_path / f"{one}.ckpt",
            one,
            precision=precision,
        )
        for one in ("zero1", "ddp")
    )
    assert not differing(without_plan(found[0]), without_plan(expected[0]))
    assert all(torch.isfinite(value).all() for value in found[0]["state_dict"].values())


def overflow(engine: Any) -> list[torch.Tensor]:
    module = Regression().float()
    ready, optimizer = engine.setup(module, torch.optim.AdamW(module.parameters(), lr=0.01))
    for step in range(4):
        optimizer.zero_grad()
        loss = ready(torch.full((2, 4), 0.5 + engine.global_rank)).square().mean()
        spoilt = module.net[0].bias.sum() * torch.inf if step == 2 and engine.global_rank else 0.0
        engine.backward(loss + spoilt)
        optimizer.step()
    return [one.detach().clone() for one in module.parameters()]


def test_the_engine_leaves_out_a_step_that_overflows_in_a_part_of_another_rank() -> None:
    zero1, ddp = (
        dt.Engine(accelerator="cpu", devices=2, strategy=one, launcher="fork", precision="16-mixed").launch(
            overflow
        )
        for one in ("zero1", "ddp")
    )
    assert not differing(zero1, ddp)
    assert all(torch.isfinite(one).all() for one in zero1)


def engine_main(engine: Any, path: Path | None, goes_on: bool) -> tuple[list[Any], int]:
    nets = [
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) for _ in range(2)
    ]
    with torch.no_grad():
        for one in itertools.chain(*(net.parameters() for net in nets)):
            one.copy_(torch.linspace(-0.5, 0.5, one.numel()).view_as(one))
    slow, fast = (
        torch.optim.AdamW(nets[0].parameters(), lr=0.01),
        torch.optim.SGD(nets[1].parameters(), 0.1, 0.9),
    )
    first, slow = engine.setup(nets[0], slow)
    second = engine.setup(nets[1])
    fast = engine.setup_optimizers(fast)
    batches = engine.setup_dataloaders(loader(40))
    state = {"first": first, "second": second, "slow": slow, "fast": fast}
    for _ in range(1 + (path is None)):
        if goes_on and path is not None:
            engine.load(path, state)
        for x, y in batches:
            for module, optimizer in ((first, slow), (second, fast)):
                optimizer.zero_grad()
                engine.backward(((module(x.float()) - y.float()) ** 2).mean())
                engine.clip_gradients(module, optimizer, max_norm=0.5)
                optimizer.step()
    if path is not None and not goes_on:
        engine.save(path, state)
    return [one.detach() for net in nets for one in net.parameters()], elements(slow.state) + elements(
        fast.state
    )


def test_the_engine_shares_out_too_and_saves_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"

    def launch(strategy: str, path: Path | None, *, goes_on: bool = False) -> Any:
        return dt.Engine(accelerator="cpu", devices=2, strategy=strategy, launcher="fork").launch(
            engine_main, path, goes_on
        )

    whole, count = launch("zero1", None)
    expected, all_of_it = launch("ddp", None)
    assert not differing(whole, expected)
    assert count == pytest.approx(all_of_it / 2, rel=0.25)
    launch("zero1", path)
    for strategy in ("zero1", "ddp"):
        resumed, _ = launch(strategy, path, goes_on=True)
        assert not differing(resumed, whole)


KINDS = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and kind is not torch.optim.Optimizer
]


def step_with_each(engine: Any) -> dict[str, tuple[list[torch.Tensor], dict[str, Any], list[int]]]:
    """Take three steps with each of torch's optimizers, over two matrices: a rank more than there are."""
    found = {}
    for kind in KINDS:
        if kind is torch.optim.LBFGS:
            continue
        module = torch.nn.Sequential(
            torch.nn.Embedding(6, 4, sparse=kind is torch.optim.SparseAdam), torch.nn.Linear(4, 3, bias=False)
        )
        with torch.no_grad():
            for one in module.parameters():
                one.copy_(torch.linspace(-0.5, 0.5, one.numel()).view_as(one))
        trained = module[:1] if kind is torch.optim.SparseAdam else module
        ready, optimizer = engine.setup(module, kind(trained.parameters(), lr=0.01))
        for step in range(3):
            optimizer.zero_grad()
            engine.backward(ready(torch.tensor([engine.global_rank, step])).square().mean())
            optimizer.step()
        held = engine.strategy.collectives.all_gather_object(elements(optimizer.state))
        state = engine.strategy.optimizer_state(optimizer)
        found[kind.__name__] = ([one.detach() for one in trained.parameters()], state, held)
    return found


def test_each_of_torchs_optimizers_steps_on_more_ranks_than_it_has_parameters() -> None:
    zero1, ddp = (
        dt.Engine(accelerator="cpu", devices=3, strategy=one, launcher="fork").launch(step_with_each)
        for one in ("zero1", "ddp")
    )
    assert len(zero1) > 10
    for name, (parameters, state, held) in zero1.items():
        assert not differing((parameters, state), ddp[name][:2]), name
        assert min(held) == 0, name
        assert sum(held) == ddp[name][2][0], name


class Sometimes(Regression):
    """Each rank uses a part that the other one does not, in some steps; one part is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(3))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        if batch_idx % 2:
            return ((self.own[self.global_rank](self(x)) - y) ** 2).mean()
        return self.loss(batch)


def test_parameters_that_only_some_ranks_and_steps_use_are_stepped_on_as_in_ddp(tmp_path: Path) -> None:
    found, expected = (
        fit(Sometimes(), tmp_path / f"{one}.ckpt", f"{one}(find_unused_parameters=true)")[0]
        for one in ("zero1", "ddp")
    )
    assert not differing(without_plan(found), without_plan(expected))
    assert len(found["optimizer_states"][0]["state"]) == 8


def test_searches_run_in_a_fit() -> None:
    model = Sized(num_samples=64)
    model.batch_size = 2
    finders = [
        dt.BatchSizeFinder(max_trials=3, steps_per_trial=2),
        dt.LearningRateFinder(num_training_steps=8, attr_name="lr"),
    ]
    result = quiet(**TWO, max_steps=3, callbacks=finders).fit(model)
    assert result.steps == 3
    assert model.batch_size > 2
