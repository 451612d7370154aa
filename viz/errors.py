"""Errors of motions about their plans against time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, said, text
from viz.contacts import named
from viz.plots import COLORS, canvas, literal, plain, write, written


def plot_errors(
    errors: Mapping[str, tuple[ArrayLike, ArrayLike]], path: str | os.PathLike[str], unit: str = "m",
    title: str | None = None,
) -> Path:
    """Draw name -> (times (S+1,) [s], errors (S+1,)) as a curve each, and write them to ``path`` (.png, .pdf, .svg).

    unit: of the errors. The scale ends above the second largest curve: one that falls runs out of the picture. Bad
    input raises ProblemError, which names the argument.
    """
    named("errors", errors, "curves", some="one curve")
    target, heading, measured = written(path), "" if title is None else text("title", title), text("unit", unit)
    curves = {}
    for name, curve in errors.items():
        if not isinstance(curve, (tuple, list)) or len(curve) != 2:
            raise ProblemError(f"errors[{said(name)}]: expected times and errors, got {said(curve)}")
        times = as_array(f"errors[{said(name)}]", curve[0], (None,))
        curves[name] = times, as_array(f"errors[{said(name)}]", curve[1], (len(times),))
    figure = canvas(8.0, 3.6)
    axes = figure.subplots()
    for k, (name, (times, values)) in enumerate(curves.items()):
        axes.plot(times, values, color=COLORS[k % len(COLORS)], label=name, linewidth=1.4)
    tops = sorted(float(np.max(values, initial=0.0)) for _, values in curves.values())
    top = 1.1 * tops[max(len(tops) - 2, 0)]
    axes.set_ylim(0.0, top if top > 0.0 else 1.0)
    axes.set_xlabel("time [s]")
    axes.set_ylabel(f"error [{measured}]", parse_math=False)
    plain(axes)
    literal(axes.legend(frameon=False, fontsize=9))
    if heading:
        axes.set_title(heading, fontsize=12, parse_math=False)
    return write(figure, target)
