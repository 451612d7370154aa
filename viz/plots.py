"""Curves on paper: convergence by iteration, errors over time and of differences by their step, times by numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, said, suggesting, text
from ddp.files import as_target, write_atomically
from viz.contacts import named
from viz.signals import Timed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Array = NDArray[np.float64]

COLORS = ("#c8442f", "#1f6fb4", "#3a923a", "#8a5bb0", "#c98a1b", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P")

LARGEST = 1e100
"""Bound of numbers that logarithmic axes are drawn for, as its inverse is."""


@runtime_checkable
class Converged(Protocol):
    """Solution, as far as it is plotted."""

    @property
    def cost(self) -> float: ...
    @property
    def history(self) -> Sequence[Any]: ...


class _Search(NamedTuple):
    """Search for durations as it is drawn: its solves in place of iterations."""

    cost: float
    history: Sequence[Any]


class _Solve(NamedTuple):
    """One solve of a search for durations, as an iteration is drawn: the change of durations is its step."""

    cost: float
    gradient: float
    step: float
    hessian: str
    gap: float = 1.0  # of a search that never starts again


ITERATIONS = (
    "iteration", "iterations", "iteration (filled: second order of the dynamics)",
    ("distance to the lowest cost", "gradient norm", "step length"),
)  # fmt: skip
SOLVES = (
    "solve", "solves", "solve (filled: converged)",
    ("distance to the lowest cost", "slope by durations, share of the cost", "change of durations"),
)  # fmt: skip
"""One and several of what a curve is drawn by, the axis that explains marks, and titles of the panels."""


@suggesting
def plot_convergence(
    solutions: Converged | Mapping[str, Converged], path: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Draw one solution, or several by name, as three curves each, and write them to ``path`` (.png, .pdf, .svg).

    Cost is drawn as its distance to the lowest final cost, as far as rounding lets it be seen; iterates that violate
    constraints may cost less. Filled marks are iterations with second-order terms. Curves are broken where a solve
    without constraints starts again from another guess.

    Of what `solve_durations` returns, the solves of its search are drawn: the cost with the price of time, the largest
    share of it that doubling one duration would change it by (`share` of a trial), and the largest change of a
    duration since the solve before, as a share of it. Where one solve has found all, its iterations are drawn.
    """
    several = {"": solutions} if isinstance(solutions, Converged) else solutions
    found = named("solutions", several, "Solutions", Converged, "a Solution", "one")
    searched = [name for name, solution in found.items() if len(solution.history) > 1 and isinstance(solution, Timed)]
    if searched and len(searched) < len(found):
        raise ProblemError(
            "solutions: expected either Solutions or those of solve_durations, got both;"
            f" [{said(searched[0])}].solution is the Solution with the durations found"
        )
    one, many, marked, names = SOLVES if searched else ITERATIONS
    given = {name: _drawn(solution) for name, solution in found.items()}
    figure, target = sheet(path, title, 11.0, 3.6)
    from matplotlib.ticker import MaxNLocator

    panels = figure.subplots(1, 3)
    costs = np.array([solution.cost for solution in given.values()], dtype=np.float64)
    best = float(np.min(costs, where=np.isfinite(costs), initial=np.inf))
    longest = max(len(solution.history) for solution in given.values())
    for k, (name, solution) in enumerate(given.items()):
        records = list(solution.history)
        above = np.abs(np.array([record.cost for record in records], dtype=np.float64) - best)
        exact = np.array([record.hessian != "gauss-newton" for record in records], dtype=bool)
        begins = 1 + np.flatnonzero([_starts_again(*pair) for pair in pairwise(records)])
        curves = (
            np.where(above > 1e-15 * (1.0 + abs(best)), above, np.nan),
            np.array([record.gradient for record in records], dtype=np.float64),
            np.array([record.step for record in records], dtype=np.float64),
        )
        for axes, values in zip(panels, curves, strict=True):
            width = 1.2 * (len(given) - k)  # the first ones show from under the others
            called = f"{name} ({len(records)} {many})" if name else f"{len(records)} {many}"
            _curve(axes, called, values, exact, begins, k, 0.0 if axes is panels[2] else width)
    for axes, called in zip(panels, names, strict=True):
        axes.set_xlabel(marked if axes is panels[1] else one)
        axes.set_title(called, fontsize=10)
        axes.set_yscale("log", base=2 if called == "step length" else 10)
        if longest > 100:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes)
    literal(panels[0].legend(frameon=False, fontsize=9))
    return write(figure, target)


def _drawn(solution: Converged) -> Converged:
    """The solution whose history is drawn: of a search for durations its solves, or the iterations of its only one."""
    if not isinstance(solution, Timed):
        return solution
    trials = solution.history
    if len(trials) == 1:
        return cast(Converged, solution.solution)
    durations = np.array([trial.durations for trial in trials])
    lasting = np.where(durations[:-1] > 0.0, durations[:-1], 1.0)  # impacts take no time
    changes = [0.0, *np.abs(np.diff(durations, axis=0) / lasting).max(axis=1)]
    kinds = ["exact" if trial.converged else "gauss-newton" for trial in trials]
    rows = [_Solve(trial.cost, trial.share, *rest) for trial, *rest in zip(trials, changes, kinds, strict=True)]
    return _Search(solution.cost, rows)


def write(figure: Figure, target: Path) -> Path:
    """Write a figure in the format that its file's name asks for."""
    form = target.suffix.lower()[1:]
    return write_atomically(target, lambda stream: figure.savefig(stream, format=form, dpi=150))


def sheet(path: str | os.PathLike[str], title: str | None, width: float, height: float) -> tuple[Figure, Path]:
    """A figure [inch] under its title, which needs no screen, and the file that it is to be written to, checked."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ValueError as reason:  # of a screen's, which is not needed, but asked for
        raise ProblemError(f"MPLBACKEND: {reason}") from reason

    target = as_target(path, (".png", ".pdf", ".svg"))
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    if title is not None and text("title", title):
        figure.suptitle(title, fontsize=12, parse_math=False)
    return figure, target


def label(name: str) -> str:
    """Label of a curve in a legend that is made `literal`: matplotlib leaves out those that begin with "_"."""
    return f"-{name}"


def literal(legend: Legend) -> None:
    """Show the names of labels in a legend as text, not as formulas."""
    for shown in legend.get_texts():
        shown.set_parse_math(False)
        shown.set_text(shown.get_text().removeprefix(label("")))


def plain(axes: Axes) -> None:
    """A light grid, and no frame above and to the right."""
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _starts_again(last: Any, record: Any) -> bool:
    """Whether a record is of another attempt: the cost rises, which no step without gaps and constraints does."""
    plain = last.gap == 0.0 and last.penalty == record.penalty == 0.0 and not (last.full_space or record.full_space)
    return bool(plain and record.cost > last.cost + 1e-9 * (1.0 + abs(last.cost)))


def _curve(
    axes: Axes, title: str, values: Array, exact: NDArray[np.bool_], begins: NDArray[np.intp], k: int, width: float
) -> None:
    color = COLORS[k % len(COLORS)]
    drawn = np.where(values > 0.0, values, np.nan)  # a rejected step has length zero
    iteration = np.arange(1, len(drawn) + 1)
    size = 4.0 if len(drawn) < 80 else 2.0
    marker = MARKERS[k % len(MARKERS)]
    axes.plot(
        np.insert(iteration, begins, 0), np.insert(drawn, begins, np.nan), color=color, label=label(title),
        linewidth=width, marker=marker, markersize=size, markerfacecolor="white", markeredgewidth=1.0,
    )  # fmt: skip
    axes.plot(iteration[exact], drawn[exact], color=color, linestyle="none", marker=marker, markersize=size)


@suggesting
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
        axes.plot(times, values, color=COLORS[k % len(COLORS)], label=label(name), linewidth=1.4)
    tops = sorted(float(np.max(values, initial=0.0)) for _, values in curves.values())
    top = 1.1 * tops[max(len(tops) - 2, 0)]
    axes.set_ylim(0.0, top if top > 0.0 else 1.0)
    axes.set_xlabel("time [s]")
    axes.set_ylabel(f"error [{text('unit', unit)}]", parse_math=False)
    plain(axes)
    literal(axes.legend(frameon=False, fontsize=9))
    return write(figure, target)


@suggesting
def plot_growth(
    counts: ArrayLike, times: Mapping[str, ArrayLike], path: str | os.PathLike[str], up: str = "µs"
) -> Path:
    """Draw positive numbers (k,) by name against positive ``counts`` (k,) of bodies, both on logarithmic axes.

    path: .png, .pdf or .svg.   up: name of the vertical axis.   Bad input raises ProblemError.
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
        axes.loglog(at, values, label=label(name), color=color, marker=marker, linewidth=1.2)
    axes.set_xticks(at, [f"{count:g}" for count in at])
    axes.minorticks_off()
    axes.set_xlabel("bodies")
    axes.set_ylabel(text("up", up), parse_math=False)
    plain(axes)
    literal(axes.legend(fontsize=7, frameon=False))
    return write(figure, target)


@suggesting
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
                label=label(f"{name}, {kind}"),
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
