"""Every name that users of Lightning know is there, or docs/differences.md says why it is not."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import drivetrain as dt
from drivetrain.compat import fabric
from drivetrain.compat import lightning as pl
from drivetrain.compat.boring import BoringModel
from drivetrain.compat.table import FABRIC, LIGHTNING
from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.legacy import LEGACY
from tests.surface import names

Asked: TypeAlias = "Iterator[tuple[str, Callable[[], bool]]]"
"""A name, as the page writes it, and the question whether it is there."""

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
ABSENT, NOT_RUN = "## Names that are not there", "## Names that resolve, and do not run yet"
MODULES = [
    dt,
    *(
        importlib.import_module(f"{root.__name__}.{path}".rstrip("."))
        for root, table in ((pl, LIGHTNING), (fabric, FABRIC))
        for path in table
    ),
]


def listed(heading: str) -> dict[str, str]:
    """Return the names in a table of the page, with what it says about each."""
    text = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: row[1] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


def codes(call: Callable[[], object]) -> set[str]:
    """Return the codes of the error that a call raises; none where it succeeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except dt.PlanError as error:
            return {one.code for one in error.conflicts}
        except dt.DrivetrainError as error:
            return {error.code}
    return set()


def held(words: Iterable[str], label: str, *holders: Any) -> Asked:
    for word in words:
        yield f"{label}.{word}", lambda word=word: any(hasattr(one, word) for one in holders)


def exported(words: Iterable[str]) -> Asked:
    def is_there(word: str) -> bool:
        return any(word in one.__all__ and getattr(one, word) is not None for one in MODULES)

    for word in words:
        yield word, lambda word=word: is_there(word)


def arguments() -> Asked:
    def takes(word: str, value: Any) -> bool:
        given = {"accelerator": "cpu", "devices": 1, word: value}
        found = codes(lambda: pl.Trainer(**given))
        assert found <= {"trainer.later-argument"}
        return not found

    for word, value in names.ARGUMENTS.items():
        yield f"Trainer({word}=...)", lambda word=word, value=value: takes(word, value)
    for word in names.LEGACY_ARGUMENTS:
        yield f"Trainer({word}=...)", lambda word=word: word in LEGACY
    for verb, words in names.VERB_ARGUMENTS.items():
        known = inspect.signature(getattr(pl.Trainer, verb)).parameters
        for word in words.split():
            yield f"trainer.{verb}({word}=...)", lambda word=word, known=known: word in known
    known = inspect.signature(dt.Module.log).parameters
    for word in names.LOG_ARGUMENTS:
        yield f"Module.log({word}=...)", lambda word=word: word in known


def values() -> Asked:
    for word in names.CKPT_PATHS:
        yield f'ckpt_path="{word}"', lambda word=word: means_something(word)
    for mode in names.COMBINED_MODES:
        yield f'CombinedLoader(mode="{mode}")', lambda mode=mode: bool(dt.CombinedLoader([[1]], mode=mode))
    for word, flags in names.STRATEGIES.items():
        yield f'strategy="{word}"', lambda word=word, flags=flags: resolves(strategy=word, **flags)
    for word in names.PRECISIONS:
        yield f'precision="{word}"', lambda word=word: resolves(precision=word)
    for word in names.ACCELERATORS:
        yield f'accelerator="{word}"', lambda word=word: resolves(accelerator=word)


def resolves(**flags: Any) -> bool:
    """Whether the value is known: there is a plan with it, whatever this release can run of it."""
    machine = dt.Machine(**({"tpu": 4} if flags.get("accelerator") == "tpu" else {"cuda": 2, "mps": 1}))
    found = codes(lambda: dt.plan(machine=machine, **flags))
    assert found <= {"plan.strategy-value", "plan.precision-value", "plan.accelerator-value"}
    return not found


def means_something(word: str) -> bool:
    """Whether ``ckpt_path`` takes the word for something other than a file of that name."""
    trainer = dt.Trainer(accelerator="cpu", devices=1, enable_progress_bar=False)
    found = codes(lambda: trainer.validate(BoringModel(), ckpt_path=word))
    assert found <= {"trainer.no-best", "trainer.no-last", "checkpoint.missing"}
    return "checkpoint.missing" not in found


def everything() -> Asked:
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    # An instance has attributes beside its class's; properties are only looked at on the class.
    yield from arguments()
    yield from held(names.TRAINER, "trainer", pl.Trainer, Bag(vars(trainer)))
    yield from held(names.MODULE, "Module", dt.Module, pl.LightningModule)
    yield from held(names.DATAMODULE, "DataModule", dt.DataModule, pl.LightningDataModule)
    yield from held(names.CALLBACK, "Callback", dt.Callback)
    yield from held(names.TUNER, "Tuner", dt.Tuner)
    yield from held(names.FABRIC, "Fabric", fabric.Fabric, Bag(vars(fabric.Fabric(accelerator="cpu"))))
    yield from held(names.WRAPPED, "Fabric.setup(...)", dt.EngineModule)
    yield from exported((*names.CLASSES, *names.FUNCTIONS))
    yield from values()
    for command in names.COMMANDS:
        yield command, lambda: "main" in importlib.import_module(f"{fabric.__name__}.cli").__all__


class Bag:
    """Attributes, as an object."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)


EVERYTHING = dict(everything())


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_name_is_there_or_the_page_says_why_not(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    is_there, why = EVERYTHING[name](), listed(ABSENT).get(name)
    assert is_there or why, f"{name} is not there: build it, or write it into {PAGE.name} under {ABSENT!r}"
    assert not (is_there and why), f"{name} is there: take it out of {PAGE.name}"


def test_the_page_lists_nothing_that_nobody_asks_for():
    assert sorted(set(listed(ABSENT)) - set(EVERYTHING)) == []


def test_each_absent_name_has_its_reason():
    assert [name for name, why in listed(ABSENT).items() if len(why) < 15] == []


def test_what_resolves_and_does_not_run_is_what_the_page_says():
    known = shipped()
    families = {
        "accelerator": known.accelerators,
        "strategy": known.strategies,
        "precision": known.precisions,
        "launcher": known.launchers,
    }
    without = {
        f'{flag}="{name}"'
        for flag, parts in families.items()
        for name, facts in parts.items()
        if not facts.runtime
    }
    assert set(listed(NOT_RUN)) == without


ANSWERS = [
    name for name in names.TRAINER if isinstance(inspect.getattr_static(pl.Trainer, name, None), property)
]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_property_answers_before_a_run_or_says_that_there_was_none(name):
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, max_steps=1)
    assert codes(lambda: getattr(trainer, name)) <= {"trainer.no-run"}
    trainer.fit(BoringModel())
    getattr(trainer, name)
