"""Legged motion on paper: who stands when, and what the ground does to the feet."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, said, suggesting
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import friction, friction_cones, ground_forces, standing
from dynamics.steps.free_start import inside
from viz.contacts import Flags, as_forces, as_friction, as_schedule, in_contact, instants
from viz.plots import label, literal, plain, sheet, write
from viz.shapes import COLORS, Array, turned_to
from viz.signals import Acted, Told, motion_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEEPEST = 2.0
"""The largest ratio of forces that a panel shows, in units of where a foot slips."""


@suggesting
def plot_schedule(
    schedule: Told | Mapping[str, ArrayLike],
    dt: ArrayLike | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Path:
    """Draw who stands when, as Hildebrand did, and write it to ``path`` (.png, .pdf, .svg): one row per foot.

        plot_schedule(solution, path)
        plot_schedule(schedule, dt, path)

    solution: of a problem with contacts, which tells the rest.
    schedule: name of a foot -> flags (N,), true while it stands; dt: how long each flag lasts [s], one number or
    (N,). A bar is a stance; beside each row is its duty factor, the share of time for which the foot stands; time
    with no foot on the ground is grey. Bad input raises ProblemError, which names the argument.
    """
    schedule = _planned("schedule", schedule, "who stands when")
    if isinstance(schedule, Told):
        system, _, _, path = _contacts(schedule, dt, path)
        schedule, dt = standing(system), system.durations
    feet = as_schedule(schedule)
    times = instants(cast(Any, dt), len(next(iter(feet.values()))) + 1)
    figure, target = sheet(cast(Any, path), title, 9.0, 1.2 + 0.42 * len(feet))
    axes = figure.subplots()
    for row, stands in enumerate(feet.values()):
        axes.broken_barh(spans(stands, times), (row - 0.36, 0.72), color=_color(row), linewidth=0.0)
        duty = float(np.diff(times) @ stands) / float(times[-1])
        axes.text(1.01, row, f"{100.0 * duty:.0f} %", transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    flight = ~np.any(list(feet.values()), axis=0)
    for start, length in spans(flight, times):
        axes.axvspan(start, start + length, color="#e4e4e4", linewidth=0.0, zorder=0)
    axes.set_yticks(range(len(feet)), list(feet), parse_math=False)
    axes.set_ylim(len(feet) - 0.4, -0.6)
    axes.set_xlim(0.0, float(times[-1]))
    axes.set_xlabel("time [s]" + (", grey: no foot stands" if flight.any() else ""))
    axes.text(1.01, 1.02, "duty", transform=axes.transAxes, fontsize=9)
    plain(axes)
    axes.set_axisbelow(True)
    axes.grid(False, axis="y")
    return write(figure, target)


@suggesting
def plot_forces(
    forces: Told | Mapping[str, ArrayLike],
    dt: ArrayLike | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    mu: float | Mapping[str, float] | None = None,
    title: str | None = None,
) -> Path:
    """Draw the forces on the feet over time, and write them to ``path`` (.png, .pdf, .svg).

        plot_forces(solution, path)
        plot_forces(forces, dt, path)

    solution: of a problem with contacts, which tells the rest, mu as well.
    forces: name of a foot -> its force (N, 3) in world axes [N], NaN or zero where there is no contact; dt: how long
    each lasts [s], one number or (N,); mu: coefficient of friction, one number or one for each name.
    Above is the normal force, along the world's z, or of a solution along the axes of its cones. Below is the share of
    the friction that is used, ``|tangential| / (mu normal)``: the foot slips above 1; without mu it is
    ``|tangential| / normal``. What is steeper than the panel shows, or pulls at the ground, runs along its upper edge.
    Bad input raises ProblemError, which names the argument.
    """
    forces = _planned("forces", forces, "which forces act")
    if isinstance(forces, Told):
        system, X, U, path = _contacts(forces, dt, path)
        acting, dt = ground_forces(system, X, U), system.durations
        known, usual = friction_cones(forces.problem, system, X), friction(forces.problem)
        forces = {foot: force @ turned_to(known[foot][1]) if foot in known else force for foot, force in acting.items()}
        if mu is None and usual is not None:
            mu = {foot: known[foot][0] if foot in known else usual for foot in acting}
    given = as_forces(forces)
    if not given:
        raise ProblemError("forces: expected at least one foot, got none")
    coefficients = as_friction("mu", 1.0 if mu is None else mu, list(given))
    for name in given:
        if name not in coefficients:
            raise ProblemError(f"mu: expected a coefficient for each foot, got none for {said(name)}")
    times = instants(cast(Any, dt), len(next(iter(given.values()))) + 1)
    figure, target = sheet(cast(Any, path), title, 9.0, 5.2)
    above, below = figure.subplots(2, 1, sharex=True)
    shares = {name: share(force, coefficients[name]) for name, force in given.items()}
    seen = np.concatenate(list(shares.values()))
    least = 0.1 if mu is None else 1.0
    top = 1.15 * max([least, *(min(float(value), STEEPEST) for value in seen[np.isfinite(seen)])])
    for row, (name, force) in enumerate(given.items()):
        _steps(above, times, np.where(in_contact(force), force[:, 2], np.nan), row, len(given), name)
        _steps(below, times, np.minimum(shares[name], top), row, len(given), name)
    above.set_ylabel("normal force [N]")
    above.update_datalim([(0.0, 0.0)])
    above.autoscale_view()
    columns = min(len(given), 6)
    literal(above.legend(frameon=False, fontsize=9, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0)))
    below.set_ylabel("|tangential| / normal" if mu is None else "|tangential| / (μ normal)")
    below.set_ylim(0.0, top)
    if mu is not None:
        below.axhline(1.0, color="#555555", linewidth=1.0, linestyle="--")
        below.text(1.005, 1.0, "slips", transform=below.get_yaxis_transform(), va="center", fontsize=9)
    below.set_xlabel("time [s]")
    below.set_xlim(0.0, float(times[-1]))
    for axes in (above, below):
        plain(axes)
    return write(figure, target)


def _planned(field: str, given: Any, what: str) -> Any:
    """The solution within what is given, or itself; ProblemError for simulated motions."""
    found = motion_of(given)
    if isinstance(found, Acted):
        kept = f"which keep no record of {what}: expected the solution, of which it is drawn as planned"
        raise ProblemError(f"{field}: got a motion from simulate or simulate_receding, {kept}")
    return found


def _contacts(solution: Any, dt: Any, path: Any) -> tuple[PhasedDynamics, Array, Any, Any]:
    """The robot's system of a solution, its states and controls, and the path, which may stand in place of dt."""
    system, X, U = inside(solution.problem.dynamics, np.asarray(solution.X), np.asarray(solution.U))
    if not isinstance(system, PhasedDynamics):
        raise ProblemError(f"solution: expected one of a problem with contacts, got one of {type(system).__name__}")
    if dt is not None and path is not None:
        raise ProblemError("dt: expected none beside a solution, which has its own")
    return system, X, U, dt if path is None else path


def spans(flags: Flags, times: Array) -> list[tuple[float, float]]:
    """Start and duration of each run of true flags (N,); times (N+1,)."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    ends = times[change].reshape(-1, 2)
    return [(float(start), float(end - start)) for start, end in ends]


def share(force: Array, mu: float) -> Array:
    """``|tangential| / (mu normal)`` (N,); infinite where the force pulls, NaN where there is none."""
    normal, tangential = force[:, 2], np.hypot(force[:, 0], force[:, 1])
    pushes = normal > 0.0
    used = tangential / np.where(pushes, mu * normal, 1.0)
    return np.where(in_contact(force), np.where(pushes, used, np.inf), np.nan)


def _steps(axes: "Axes", times: Array, values: Array, row: int, rows: int, name: str) -> None:
    held = np.concatenate([values, values[-1:]])
    width = 1.1 * min(rows - row, 5)  # the first ones show from under the others
    axes.step(times, held, where="post", color=_color(row), linewidth=width, label=label(name))


def _color(row: int) -> tuple[float, float, float]:
    return COLORS[row % len(COLORS)][:3]
