"""The demo's picture: the loss before and after the interruption, and what the net reads."""

from __future__ import annotations

from typing import Any

import torch

_BEFORE, _AFTER, _GOOD, _BAD = "#2a6fbb", "#e07b28", "#1b7f4b", "#c62828"
_ROWS, _COLUMNS = 5, 8

Points = list[tuple[int, float]]


def draw(
    before: Points, after: Points, images: torch.Tensor, truth: torch.Tensor, read: torch.Tensor, path: str
) -> None:
    """Write the PNG; images that were read wrong come first in the grid.

    Shapes:
        images: [n, 1, 8, 8], floating.
        truth, read: [n], integers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1.05, 1])[0]
    _curve(left.subplots(), before, after)
    right_count = int((truth == read).sum())
    right.suptitle(
        f"{right_count} of {len(read)} held-out digits read right ({right_count / len(read):.1%})\n"
        "above each: what was read (what was written, where it differs)",
        fontsize=11,
    )
    order = torch.argsort((truth == read).int(), stable=True)[: _ROWS * _COLUMNS]
    for axes, index in zip(right.subplots(_ROWS, _COLUMNS).flat, order.tolist(), strict=True):
        _digit(axes, images[index, 0], int(truth[index]), int(read[index]))
    figure.savefig(path)


def _curve(axes: Any, before: Points, after: Points) -> None:
    for points, colour, label in (
        (before, _BEFORE, "until the kill"),
        (after, _AFTER, "resumed from the checkpoint"),
    ):
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=1.4,
            label=f"{label}: steps {points[0][0]} to {points[-1][0]}",
        )
    cut = before[-1][0] + 0.5
    axes.axvline(cut, color="#777777", linewidth=1, linestyle="--")
    note = {"xycoords": ("data", "axes fraction"), "xytext": (-6, 0), "textcoords": "offset points"}
    axes.annotate("killed", (cut, 0.02), ha="right", va="bottom", color="#555555", **note)
    axes.set(yscale="log", xlabel="optimizer step", ylabel="cross entropy, mean over all ranks")
    axes.set_title("training loss, step by step", fontsize=12)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.99))


def _digit(axes: Any, image: torch.Tensor, truth: int, read: int) -> None:
    axes.imshow(image.numpy(), cmap="gray_r", interpolation="nearest")
    is_right = truth == read
    axes.set_title(
        f"{read}" if is_right else f"{read} ({truth})", color=_GOOD if is_right else _BAD, fontsize=11, pad=2
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#cccccc" if is_right else _BAD)
