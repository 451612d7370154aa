"""Errors of differences against their step: where truncation ends and rounding begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, said, text
from viz.contacts import named
from viz.plots import COLORS, MARKERS, Array, canvas, literal, plain, write, written


def plot_differences(
    deltas: ArrayLike, errors: Mapping[str, ArrayLike], path: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Draw errors of differences against their step, both on logarithmic axes, to ``path`` (.png, .pdf, .svg).

    deltas (k,): steps.   errors: name of a method -> its largest and its average errors (k, 2). Zeros are left out, and
    so is all above 1e100.
    Bad input raises ProblemError, which names the argument.
    """
    steps = as_array("deltas", deltas, (None,))
    if not (steps > 0.0).all():
        raise ProblemError(f"deltas: expected positive steps, got {said(float(steps.min(initial=0.0)))}")
    named("errors", errors, "errors", some="one method")
    curves = {name: as_array(f"errors[{said(name)}]", rows, (len(steps), 2)) for name, rows in errors.items()}
    target, heading = written(path), "" if title is None else text("title", title)
    figure = canvas(6.4, 4.2)
    axes = figure.subplots()
    for k, (name, rows) in enumerate(curves.items()):
        for column, (kind, style) in enumerate((("largest", "-"), ("average", "--"))):
            shown = drawable(steps) & drawable(rows[:, column])
            axes.plot(
                steps[shown], rows[shown, column], style, color=COLORS[k % len(COLORS)], linewidth=1.2,
                marker=MARKERS[k % len(MARKERS)], markersize=3.0, markerfacecolor="white" if column else None,
                label=f"{name}, {kind}",
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("step of the differences")
    axes.set_ylabel("error of entries")
    axes.set_title(heading, fontsize=11, parse_math=False)
    plain(axes)
    literal(axes.legend(frameon=False, fontsize=9))
    return write(figure, target)


def drawable(values: Array) -> NDArray[np.bool_]:
    """Whether logarithmic axes can show numbers."""
    return np.asarray((values > 1e-100) & (values < 1e100))
