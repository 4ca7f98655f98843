"""What runs and speaks on rank 0 only."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, final

import torch.distributed as dist

from drivetrain.compat.known_errors import LightningDeprecationWarning
from drivetrain.loggers.rank import is_rank_zero

T = TypeVar("T")
_LOG = logging.getLogger("drivetrain")


def _is_zero() -> bool:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return is_rank_zero()


@final
class _RankZeroOnly:
    """The decorator; ``rank`` is this process's, as far as it is known."""

    @property
    def rank(self) -> int:
        """This process's rank: that of its process group, else 0 or 1 by what the cluster's variables say."""
        if dist.is_available() and dist.is_initialized():
            return dist.get_rank()
        return 0 if is_rank_zero() else 1

    def __call__(self, function: Callable[..., T], default: Any = None) -> Callable[..., T | Any]:
        """Let a function run on rank 0 only; on others it returns ``default``."""

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if _is_zero() else default

        return guarded


rank_zero_only = _RankZeroOnly()


def rank_zero_warn(message: Any, stacklevel: int = 2, category: Any = UserWarning, **kwargs: Any) -> None:
    """Warn on rank 0."""
    if _is_zero():
        warnings.warn(message, category, stacklevel=stacklevel, **kwargs)


def rank_zero_deprecation(
    message: Any, stacklevel: int = 2, category: Any = LightningDeprecationWarning, **kwargs: Any
) -> None:
    """Warn on rank 0 of what will be gone."""
    rank_zero_warn(message, stacklevel=stacklevel + 1, category=category, **kwargs)


def rank_zero_info(*args: Any, stacklevel: int = 2, **kwargs: Any) -> None:
    """Log on rank 0, at level INFO."""
    if _is_zero():
        _LOG.info(*args, stacklevel=stacklevel, **kwargs)


def rank_zero_debug(*args: Any, stacklevel: int = 2, **kwargs: Any) -> None:
    """Log on rank 0, at level DEBUG."""
    if _is_zero():
        _LOG.debug(*args, stacklevel=stacklevel, **kwargs)


def rank_prefixed_message(message: str, rank: int | None) -> str:
    """Return the message with the rank before it."""
    return message if rank is None else f"[rank: {rank}] {message}"


class WarningCache(set[str]):
    """Warns of each message once."""

    def warn(self, message: str, stacklevel: int = 2, **kwargs: Any) -> None:
        """Warn on rank 0, the first time."""
        if message not in self:
            self.add(message)
            rank_zero_warn(message, stacklevel=stacklevel + 1, **kwargs)

    def deprecation(self, message: str, stacklevel: int = 2, **kwargs: Any) -> None:
        """Warn on rank 0, the first time, of what will be gone."""
        if message not in self:
            self.add(message)
            rank_zero_deprecation(message, stacklevel=stacklevel + 1, **kwargs)

    def info(self, message: str, stacklevel: int = 2, **kwargs: Any) -> None:
        """Log on rank 0, the first time."""
        if message not in self:
            self.add(message)
            rank_zero_info(message, stacklevel=stacklevel + 1, **kwargs)
