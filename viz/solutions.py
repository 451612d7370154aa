"""Plots of solutions: positions, velocities, controls and gains of every joint over time."""

import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.errors import ProblemError, said, suggesting
from viz.contacts import named
from viz.plots import COLORS, label, literal, plain, sheet, write
from viz.signals import Named, Signal, Told, motions_of, signals_of, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAINS = {"gain": "gain on position, dashed: on velocity"}
"""Title of the column of gains."""

WIDEST = 16
"""Letters of a row's name in a line: more are longer than a row is high."""

MOST = 24
"""Rows of a figure: numbers of a state beyond these are left to `to_csv`."""


@suggesting
def plot_solution(
    solutions: Named | Mapping[str, Named], path: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Draw states and controls over time with their limits, a row for each joint, and write them to ``path``.

        plot_solution(solution, path)
        plot_solution({"plan": solution, "in MuJoCo": simulate(solution)}, path)

    solutions: one, or several of one system by name; runs of `simulate` are drawn as well.   path: .png, .pdf or .svg.
    Dashed lines are limits that lie in the range of the plot. The last column has the gains of each control on the
    error of its joint's position and, dashed, velocity, in the control's unit by the error's, where all have gains.
    Numbers of joints with several degrees of freedom have rows of their own; at most 24 rows are drawn.
    Raises ProblemError for what is no Solution, or for solutions of systems whose numbers have other names.
    """
    solutions = motions_of(solutions)
    several = {"": solutions} if isinstance(solutions, Named) else solutions
    given = named("solutions", several, "Solutions", Named, "a Solution", "one")
    signals = {name: signals_of(solution) for name, solution in given.items()}
    first = next(iter(signals.values()))
    for name, found in signals.items():
        if [signal.names for signal in found.values()] != [signal.names for signal in first.values()]:
            raise ProblemError(f"solutions[{said(name)}]: expected one of the system of the first, got another's")
    names = dict.fromkeys(name for signal in first.values() for name in signal.names)
    gained = [row for row in names if all(_has_gains(one, row) for one in given.values())]
    columns = {title: signal.names for title, signal in first.items()} | ({"gain": tuple(gained)} if gained else {})
    rows = {row: i for row, i in _rows(columns).items() if i < MOST}
    figure, target = sheet(path, title, 3.2 * len(columns), 0.6 + 1.15 * (1 + max(rows.values())))
    panels = _panels(figure, rows, columns, {title: titled(title, signal) for title, signal in first.items()} | GAINS)
    for k, (name, solution) in enumerate(given.items()):
        color = COLORS[k % len(COLORS)]
        for (row, title), axes in panels.items():
            if title == "gain":
                _gains(axes, solution, row, color)
            else:
                _curve(axes, signals[name][title], row, color, name)
    if len(given) > 1:
        literal(next(iter(panels.values())).legend(frameon=False, fontsize=8))
    return write(figure, target)


def _rows(columns: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Row of each name: the first one that no other name of its columns has, so that all columns begin at the top."""
    rows: dict[str, int] = {}
    for name in dict.fromkeys(name for names in columns.values() for name in names):
        taken = {rows.get(other) for names in columns.values() if name in names for other in names}
        rows[name] = next(i for i in count() if i not in taken)
    return rows


def _panels(
    figure: "Figure", rows: Mapping[str, int], columns: Mapping[str, Sequence[str]], titles: Mapping[str, str]
) -> "dict[tuple[str, str], Axes]":
    """An axes for each name in each column that has it, by both; rows: by names, columns: title to names.

    titles: as they are shown, where not as they are.
    """
    grid = figure.add_gridspec(1 + max(rows.values()), len(columns))
    panels: dict[tuple[str, str], Axes] = {}
    for j, (title, names) in enumerate(columns.items()):
        own = sorted((i, row) for row, i in rows.items() if row in names)
        for i, row in own:
            axes = panels[row, title] = figure.add_subplot(grid[i, j], sharex=next(iter(panels.values()), None))
            axes.tick_params(labelsize=7, labelbottom=i == own[-1][0])
            axes.locator_params(axis="x", nbins=6)
            plain(axes)
            if not any((row, other) in panels for other in columns if other != title):
                axes.set_ylabel(fill(row, WIDEST), fontsize=8, parse_math=False)
        if own:
            panels[own[0][1], title].set_title(titles.get(title, title), fontsize=10)
            panels[own[-1][1], title].set_xlabel("time [s]", fontsize=9)
    return panels


def _curve(axes: "Axes", signal: Signal, row: str, color: str, name: str) -> None:
    """One column of a signal, with its limits where they are near."""
    i, t = signal.names.index(row), np.asarray(signal.t)
    values = np.asarray(signal.values)[:, i]
    style = "steps-post" if signal.held else "default"
    axes.plot(t, values, color=color, linewidth=1.2, drawstyle=style, label=label(name))
    seen = values[np.isfinite(values)]
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 0.0)
    span = max(float(high - low), 1e-9)
    for limit in (signal.low[:, i], signal.high[:, i]):
        near = np.isfinite(limit).all() and low - span <= limit.max() and limit.min() <= high + span
        if near:
            axes.plot(t, limit, color="#8a8f94", linewidth=0.9, linestyle="--", drawstyle=style)


def _has_gains(solution: Named, row: str) -> bool:
    """Whether a control is of a joint's velocity of that name, and has gains."""
    return isinstance(solution, Told) and all(row in part.names for part in (solution.u, solution.v))


def _gains(axes: "Axes", solution: Any, row: str, color: str) -> None:
    """Gains of a control on the error of its own joint, and dashed on the error of that joint's velocity."""
    rates = solution.v.names
    K, i, j = solution.K[:, solution.u.names.index(row)], rates.index(row), len(rates) + rates.index(row)
    t = solution.t[:-1]
    axes.plot(t, K[:, i], color=color, linewidth=1.2, drawstyle="steps-post")
    axes.plot(t, K[:, j], color=color, linewidth=1.0, linestyle="--", drawstyle="steps-post")
