"""Entry: a part of a loaded checkpoint, which knows its name when it is not what it should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch

from drivetrain.base.errors import CheckpointError, DrivetrainError
from drivetrain.base.text import kind_name, show


@final
class Entry:
    """One entry of a checkpoint: ``Entry(checkpoint, path)["loops"]["fit"]``.

    Every method raises ``CheckpointError [checkpoint.damaged]``, with the entry's name and what is there
    instead, so that a file that was changed, or cut and put together again, is never half taken up.
    """

    def __init__(self, value: Any, path: object, name: str = "") -> None:  # noqa: ANN401 - whatever a file holds
        self.value, self.path, self.name = value, path, name

    def __getitem__(self, key: str) -> Entry:
        """Return an entry of a dict."""
        found = self.mapping()
        if key not in found:
            inner = self._inner(key)
            raise Entry(None, self.path, inner).damaged(f"{inner} is missing")
        return Entry(found[key], self.path, self._inner(key))

    def named(self) -> Iterator[tuple[str, Entry]]:
        """Return a dict's entries, all of which have texts as names."""
        for key, value in self.mapping().items():
            if type(key) is not str:
                raise self.damaged(f"{self.name} has the key {show(key)}, where names are texts")
            yield key, Entry(value, self.path, self._inner(key))

    def each(self, length: int | None = None) -> list[Entry]:
        """Return the entries of a list, of a length if that is known."""
        found = self.sequence()
        if length is not None and len(found) != length:
            raise self.damaged(f"{self.name} has {len(found)} items, and not {length}")
        return [Entry(value, self.path, f"{self.name}[{index}]") for index, value in enumerate(found)]

    def mapping(self) -> Mapping[Any, Any]:
        """Return a dict."""
        if not isinstance(self.value, Mapping):
            raise self._is_not("a dict")
        return self.value

    def sequence(self) -> list[Any]:
        """Return a list or tuple, as a list."""
        if not isinstance(self.value, (list, tuple)):
            raise self._is_not("a list")
        return [*self.value]

    def integer(self, least: int = 0) -> int:
        """Return a whole number that is not below ``least``."""
        if type(self.value) is not int:
            raise self._is_not("a whole number")
        if self.value < least:
            raise self.damaged(f"{self.name} is {self.value}, and cannot be below {least}")
        return self.value

    def number(self) -> float:
        """Return a number."""
        if type(self.value) not in (int, float):
            raise self._is_not("a number")
        return float(self.value)

    def flag(self) -> bool:
        """Return True or False."""
        if type(self.value) is not bool:
            raise self._is_not("True or False")
        return self.value

    def text(self) -> str:
        """Return a text."""
        if type(self.value) is not str:
            raise self._is_not("a text")
        return self.value

    def tensor(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return a tensor, of a shape if that is known."""
        if not isinstance(self.value, torch.Tensor):
            raise self._is_not("a tensor")
        if shape is not None and tuple(self.value.shape) != shape:
            raise self.damaged(f"{self.name} has the shape {list(self.value.shape)}, and not {list(shape)}")
        return self.value

    def check_like(self, model: Any, *, may_lack: bool = False) -> None:  # noqa: ANN401 - any plain value
        """Compare kinds with those of another plain value: what a new object would save.

        A dict has at least the entries of the model; None in the model stands for anything; numbers and
        tensors of one element are alike. A list of as many items is compared item by item; one of others has
        items like the model's first. ``may_lack``: None is as good as a value.
        """
        if model is None or (may_lack and self.value is None):
            return
        if isinstance(model, Mapping):
            self.mapping()
            for key, kept in model.items():
                self[key].check_like(kept, may_lack=may_lack)
        elif isinstance(model, (list, tuple)):
            entries = self.each()
            if model and not entries:
                raise self.damaged(f"{self.name} is empty")
            is_paired = len(model) == len(entries)
            for entry, kept in zip(
                entries, model if is_paired else [model[0] if model else None] * len(entries), strict=True
            ):
                entry.check_like(kept, may_lack=may_lack)
        else:
            self._check_leaf(model)

    def _check_leaf(self, model: Any) -> None:  # noqa: ANN401 - as above
        if type(model) is bool:
            self.flag()
        elif isinstance(model, str):
            self.text()
        elif isinstance(model, (int, float, torch.Tensor)):
            is_scalar = not isinstance(model, torch.Tensor) or model.numel() == 1
            if is_scalar and not isinstance(self.value, torch.Tensor):
                self.number()
            elif self.tensor().numel() != 1 and is_scalar:
                raise self.damaged(f"{self.name} has the shape {list(self.value.shape)}, and not one value")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Do something with the entry; what it raises for what it finds there is told with the name."""
        try:
            yield
        except CheckpointError as error:
            if error.values.get("path", self.path):
                raise
            # Raised by who was given the entry, and did not know the path.
            entry = Entry(error.values.get("value"), self.path, str(error.values.get("entry")))
            raise entry.damaged(error.message) from error
        except DrivetrainError:
            raise
        except Exception as error:
            what = f"no entry {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise self.damaged(f"{self.name} cannot be taken up: {what}") from error

    def damaged(self, message: str) -> CheckpointError:
        """Return the error for this entry."""
        return CheckpointError(
            "checkpoint.damaged",
            f"{self.path}: {message}" if self.path else message,
            values={"path": str(self.path), "entry": self.name, "value": self.value},
            because="a run goes on from a whole checkpoint, or not at all",
            hint="resume from another one; `drivetrain checkpoint show PATH` lists what this one holds",
        )

    def _inner(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def _is_not(self, wanted: str) -> CheckpointError:
        return self.damaged(f"{self.name or 'the checkpoint'} is a {kind_name(self.value)}, and not {wanted}")
