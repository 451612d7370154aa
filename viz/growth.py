"""Plots of how times grow with a number: of bodies, say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, said, text
from viz.contacts import named
from viz.plots import COLORS, MARKERS, canvas, literal, plain, write, written

LARGEST = 1e100
"""Bound of numbers that logarithmic axes are drawn for."""


def plot_growth(
    counts: ArrayLike, times: Mapping[str, ArrayLike], path: str | os.PathLike[str], across: str = "bodies",
    up: str = "µs",
) -> Path:  # fmt: skip
    """Draw positive numbers (k,) by name against positive ``counts`` (k,), both on logarithmic axes.

    path: .png, .pdf or .svg.   across, up: what the axes are called.   Bad input raises ProblemError.
    """
    at = as_array("counts", counts, (None,))
    given = {
        name: as_array(f"times[{said(name)}]", values, at.shape)
        for name, values in named("times", times, "numbers").items()
    }
    if not given or not len(at) or not all(((y > 0.0) & (y < LARGEST)).all() for y in (at, *given.values())):
        raise ProblemError(
            f"counts, times: expected positive numbers below {LARGEST:g}, at least one curve of at least one point"
        )
    target = written(path)
    figure = canvas(8.0, 4.5)
    axes = figure.subplots()
    for k, (name, values) in enumerate(given.items()):
        color, marker = COLORS[k % len(COLORS)], MARKERS[k // len(COLORS) % len(MARKERS)]
        axes.loglog(at, values, label=name, color=color, marker=marker, linewidth=1.2)
    axes.set_xticks(at, [f"{count:g}" for count in at])
    axes.minorticks_off()
    axes.set_xlabel(text("across", across), parse_math=False)
    axes.set_ylabel(text("up", up), parse_math=False)
    literal(axes.legend(fontsize=7, frameon=False))
    plain(axes)
    return write(figure, target)
