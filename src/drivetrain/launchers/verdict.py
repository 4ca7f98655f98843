"""Which failure came first, and the exception that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drivetrain.base.errors import LaunchError, RankFailure
from drivetrain.base.text import Code, listed
from drivetrain.launchers.report import Report

_SOURCE = re.compile(r"^\[[^\]]*\]\s*")
_HINTS = {
    -9: "SIGKILL comes from the system's out-of-memory killer (see dmesg) or from a person; "
    "if memory ran out, use a smaller batch or fewer data loader workers",
    -7: "SIGBUS often means that shared memory ran out: enlarge /dev/shm, or use fewer data loader workers",
}


@dataclass(frozen=True)
class Verdict:
    """What the caller raises, and from what."""

    error: BaseException
    cause: BaseException | None = None
    is_own: bool = False
    """Whether ``error`` is the caller's own exception, to be raised unchanged."""


def judge(
    own: Report,
    error: BaseException | None,
    others: Mapping[int, Report],
    *,
    running: Sequence[int] = (),
    imports_main: bool = False,
) -> Verdict | None:
    """Return what to raise; None when every rank did its work.

    An exception that torch raises because a peer is gone never comes first while there is another
    one. Of several others the earliest comes first; of equal ones the caller's own. ``running`` are
    the ranks of which nothing is known yet.
    """
    failed = [report for report in others.values() if report.how != "done"]
    if error is None and not failed:
        return None
    candidates = failed if error is None else [own, *failed]
    first = _first(candidates)
    if error is not None and not own.is_consequence and _is_same(own, first):
        first = own
    if first is not own or error is None:
        return _of_peer(first, [report for report in candidates if report is not first], own, imports_main)
    done = sorted(report.rank for report in others.values() if report.how == "done")
    staying = [*running, *(rank for rank, report in others.items() if not report.leaves_with_zero)]
    if own.leaves_with_zero and staying:
        return Verdict(_left(own, f"rank {own.rank} left by sys.exit()", sorted(staying), failed), error)
    if own.is_consequence and done:
        message = f"{_ranks(done)} had ended while rank {own.rank} still communicated"
        return Verdict(_left(own, message, [own.rank], failed), error)
    return Verdict(error, is_own=True)


def stuck(ranks: Sequence[int], own: Report, stack: str) -> RankFailure:
    """Return the error for ranks that neither end nor fail while the caller waited long enough."""
    waits = "ended" if own.how == "done" else f"waited for {'it' if len(ranks) == 1 else 'them'}"
    values: dict[str, object] = {"rank": ranks[0]}
    if own.where:
        values[f"rank {own.rank}"] = Code(f"was at {own.where}")
    return RankFailure(
        "rank.stuck",
        f"{_ranks(ranks)} did not come to an end after rank {own.rank} had {waits}",
        values=values,
        because="every rank calls the same collectives and ends together, within the timeout",
        hint="look for code that runs on some ranks only; the stack below is where the rank is now",
        also=_fold([own] if own.how == "failed" else []),
        remote_traceback=stack,
    )


def _first(reports: Iterable[Report]) -> Report:
    found = list(reports)
    return min(
        [report for report in found if not report.is_consequence] or found, key=lambda report: report.time_s
    )


def _is_same(one: Report, other: Report) -> bool:
    return (one.kind, one.message) == (other.kind, other.message)


def _of_peer(first: Report, also: Sequence[Report], own: Report, imports_main: bool) -> Verdict:
    original = first.exception()
    if isinstance(original, LaunchError) and not first.is_consequence:
        return Verdict(original)
    if first.how == "died" and not first.has_started:
        return Verdict(_not_started(first, imports_main))
    values: dict[str, object] = {"rank": first.rank}
    if first.where:
        values["where"] = Code(first.where)
    if first.how == "died" and own.where:
        values[f"rank {own.rank}"] = Code(f"was at {own.where}")
    failure = RankFailure(
        "rank.died" if first.how == "died" else "rank.failed",
        first.headline.removesuffix("."),
        values=values,
        hint=_HINTS.get(first.exit_code or 0, ""),
        also=_fold(also),
        remote_traceback=first.traceback,
    )
    return Verdict(failure, original)


def _not_started(first: Report, imports_main: bool) -> LaunchError:
    if imports_main:
        return unguarded(f"rank {first.rank} ended ({first.ending}) while Python imported the script again")
    return LaunchError(
        "launch.start-failed",
        f"the process of rank {first.rank} ended before it could begin: {first.ending}",
        values={"rank": first.rank},
        because="a rank starts as a fresh Python that imports drivetrain",
        hint="its own output, further up, says why",
    )


def unguarded(message: str) -> LaunchError:
    """Return the error for a script that Python imports again and that would launch again."""
    return LaunchError(
        "launch.unguarded-main",
        message,
        because="multiprocessing's spawn and forkserver import the script in each process that they start, "
        "and it must not start the training again",
        hint="pass launcher='subprocess', which does not run the script again, "
        "or put the script's last part under: if __name__ == '__main__':",
    )


def _left(own: Report, message: str, at_work: Sequence[int], failed: Sequence[Report]) -> RankFailure:
    return RankFailure(
        "rank.left",
        message + (f" at {own.where}" if own.where else ""),
        values={"rank": own.rank, "where": Code(own.where or "unknown"), "at work": Code(_ranks(at_work))},
        because="every rank calls the same collectives, the same number of times",
        hint="let every rank take the same number of steps and leave at the same point",
        also=_fold(failed),
    )


def _fold(reports: Sequence[Report]) -> str:
    """Say in one line which other ranks failed, alike ones together."""
    lines: list[str] = []
    for is_consequence, words in ((False, "also failed"), (True, "also failed, as a consequence")):
        groups: dict[str, list[int]] = {}
        for report in reports:
            if report.is_consequence == is_consequence:
                reason = report.ending if report.how == "died" else f"{report.kind}: {_short(report)}"
                groups.setdefault(reason, []).append(report.rank)
        if groups:
            lines.append(
                f"{words}: " + "; ".join(f"{_ranks(sorted(of))} ({why})" for why, of in groups.items())
            )
    return "; ".join(lines)


def _short(report: Report) -> str:
    """Return the message; of a consequence its first sentence, without torch's own source file."""
    text = report.message
    return _SOURCE.sub("", text).split(". ")[0] if report.is_consequence else text


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {listed(ranks)}"
