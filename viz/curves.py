"""Curves on paper: errors of motions over time, times against numbers, errors of differences against their step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, said, text
from viz.contacts import named
from viz.plots import COLORS, MARKERS, Array, literal, plain, sheet, write

LARGEST = 1e100
"""Bound of numbers that logarithmic axes are drawn for, as its inverse is."""


def plot_errors(
    errors: Mapping[str, tuple[ArrayLike, ArrayLike]], path: str | os.PathLike[str], unit: str = "m",
    title: str | None = None,
) -> Path:  # fmt: skip
    """Draw name -> (times (S+1,) [s], errors (S+1,)) as a curve each, and write them to ``path`` (.png, .pdf, .svg).

    unit: of the errors. The scale ends above the second largest curve: one that falls runs out of the picture. Bad
    input raises ProblemError, which names the argument.
    """
    named("errors", errors, "curves", some="one curve")
    curves = {}
    for name, curve in errors.items():
        if not isinstance(curve, (tuple, list)) or len(curve) != 2:
            raise ProblemError(f"errors[{said(name)}]: expected times and errors, got {said(curve)}")
        times = as_array(f"errors[{said(name)}]", curve[0], (None,))
        curves[name] = times, as_array(f"errors[{said(name)}]", curve[1], (len(times),))
    figure, target = sheet(path, title, 8.0, 3.6)
    axes = figure.subplots()
    for k, (name, (times, values)) in enumerate(curves.items()):
        axes.plot(times, values, color=COLORS[k % len(COLORS)], label=name, linewidth=1.4)
    tops = sorted(float(np.max(values, initial=0.0)) for _, values in curves.values())
    top = 1.1 * tops[max(len(tops) - 2, 0)]
    axes.set_ylim(0.0, top if top > 0.0 else 1.0)
    axes.set_xlabel("time [s]")
    axes.set_ylabel(f"error [{text('unit', unit)}]", parse_math=False)
    plain(axes)
    literal(axes.legend(frameon=False, fontsize=9))
    return write(figure, target)


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
    figure, target = sheet(path, None, 8.0, 4.5)
    axes = figure.subplots()
    for k, (name, values) in enumerate(given.items()):
        color, marker = COLORS[k % len(COLORS)], MARKERS[k // len(COLORS) % len(MARKERS)]
        axes.loglog(at, values, label=name, color=color, marker=marker, linewidth=1.2)
    axes.set_xticks(at, [f"{count:g}" for count in at])
    axes.minorticks_off()
    axes.set_xlabel(text("across", across), parse_math=False)
    axes.set_ylabel(text("up", up), parse_math=False)
    plain(axes)
    literal(axes.legend(fontsize=7, frameon=False))
    return write(figure, target)


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
    figure, target = sheet(path, title, 6.4, 4.2)
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
    plain(axes)
    literal(axes.legend(frameon=False, fontsize=9))
    return write(figure, target)


def drawable(values: Array) -> NDArray[np.bool_]:
    """Whether logarithmic axes can show numbers."""
    return np.asarray((values > 1.0 / LARGEST) & (values < LARGEST))
