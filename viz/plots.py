"""Plots of convergence: cost, gradient and step against iteration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ddp.errors import text
from ddp.files import as_target, write_atomically
from viz.contacts import named

if TYPE_CHECKING:  # imported by what draws: most that is solved is not drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Array = NDArray[np.float64]

COLORS = ("#c8442f", "#1f6fb4", "#3a923a", "#8a5bb0", "#c98a1b", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P")


@runtime_checkable
class Converged(Protocol):
    """Solution, as far as it is plotted."""

    @property
    def cost(self) -> float: ...
    @property
    def history(self) -> Sequence[Any]: ...


def plot_convergence(
    solutions: Converged | Mapping[str, Converged], path: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Draw one solution, or several by name, as three curves each, and write them to ``path`` (.png, .pdf, .svg).

    Cost is drawn as its distance to the lowest cost of all, as far as rounding lets it be seen. Filled marks
    are iterations with second-order terms.
    """
    from matplotlib.ticker import MaxNLocator

    several = {"": solutions} if isinstance(solutions, Converged) else solutions
    given = named("solutions", several, "Solutions", Converged, "a Solution", "one")
    figure, target = sheet(path, title, 11.0, 3.6)
    panels = figure.subplots(1, 3)
    costs = np.array([solution.cost for solution in given.values()], dtype=np.float64)
    best = float(np.min(costs, where=np.isfinite(costs), initial=np.inf))
    longest = max(len(solution.history) for solution in given.values())
    for k, (name, solution) in enumerate(given.items()):
        records = list(solution.history)
        above = np.array([record.cost for record in records], dtype=np.float64) - best
        exact = np.array([record.hessian != "gauss-newton" for record in records], dtype=bool)
        curves = (
            np.where(above > 1e-15 * (1.0 + abs(best)), above, np.nan),
            np.array([record.gradient for record in records], dtype=np.float64),
            np.array([record.step for record in records], dtype=np.float64),
        )
        for axes, values in zip(panels, curves, strict=True):
            width = 1.2 * (len(given) - k)  # the first ones show from under the others
            label = f"{name} ({len(records)} iterations)" if name else f"{len(records)} iterations"
            _curve(axes, label, values, exact, k, 0.0 if axes is panels[2] else width)
    names = ("cost above the lowest", "gradient norm", "step length")
    for axes, label in zip(panels, names, strict=True):
        axes.set_xlabel("iteration")
        axes.set_title(label, fontsize=10)
        axes.set_yscale("log", base=2 if label == "step length" else 10)
        if longest > 100:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes)
    literal(panels[0].legend(frameon=False, fontsize=9))
    return write(figure, target)


def write(figure: Figure, target: Path) -> Path:
    """Write a figure in the format that its file's name asks for."""
    form = target.suffix.lower()[1:]
    return write_atomically(target, lambda stream: figure.savefig(stream, format=form, dpi=150))


def sheet(path: str | os.PathLike[str], title: str | None, width: float, height: float) -> tuple[Figure, Path]:
    """A figure [inch] under its title, which needs no screen, and the file that it is to be written to, checked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    target = as_target(path, (".png", ".pdf", ".svg"))
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    if title is not None and text("title", title):
        figure.suptitle(title, fontsize=12, parse_math=False)
    return figure, target


def literal(legend: Legend) -> None:
    """Names in a legend are text, not formulas."""
    for name in legend.get_texts():
        name.set_parse_math(False)


def plain(axes: Axes) -> None:
    """A light grid, and no frame above and to the right."""
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _curve(axes: Axes, label: str, values: Array, exact: NDArray[np.bool_], k: int, width: float) -> None:
    color = COLORS[k % len(COLORS)]
    drawn = np.where(values > 0.0, values, np.nan)  # a rejected step has length zero
    iteration = np.arange(1, len(drawn) + 1)
    size = 4.0 if len(drawn) < 80 else 2.0
    marker = MARKERS[k % len(MARKERS)]
    axes.plot(
        iteration, drawn, color=color, label=label, linewidth=width, marker=marker, markersize=size,
        markerfacecolor="white", markeredgewidth=1.0,
    )  # fmt: skip
    axes.plot(iteration[exact], drawn[exact], color=color, linestyle="none", marker=marker, markersize=size)
