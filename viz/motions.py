"""Motions to draw: a trajectory of a robot, a solution, or several of them by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, axes, numbers, said
from dynamics.robots.libraries import pin
from dynamics.steps.free_start import inside
from viz.bodies import Drawable
from viz.chains import Chain, drawn
from viz.contacts import instants, named
from viz.shapes import Array
from viz.signals import Signal, Told, motion_of, motions_of, signals_of
from viz.world import World, ground_of, world_of

SEEN = 0.02
"""Time from one state of a simulated motion to the next that is drawn [s]."""


@runtime_checkable
class Solved(Protocol):
    """Solution, as far as it is drawn."""

    @property
    def X(self) -> Any: ...
    @property
    def U(self) -> Any: ...
    @property
    def problem(self) -> Any: ...


@runtime_checkable
class Simulated(Protocol):
    """Simulated motion, as far as it is drawn: states X (S+1, nx) at the times t (S+1,) [s]."""

    @property
    def X(self) -> Any: ...
    @property
    def t(self) -> Any: ...


@runtime_checkable
class Played(Simulated, Protocol):
    """Simulated motion of a system, with its plan (S+1, nx) at its times, and the problem of that, if there is one."""

    @property
    def plan(self) -> Any: ...
    @property
    def problem(self) -> Any: ...
    @property
    def system(self) -> Any: ...


class Bare(NamedTuple):
    """Dynamics in place of a problem."""

    dynamics: Any


class Run(NamedTuple):
    """States X (M+1, nx) of a problem's system at times t (M+1,) [s], and the plan's, at some fifty a second."""

    X: Array
    U: None
    problem: Any
    t: Array
    plan: Array

    @classmethod
    def of(cls, played: Played) -> "Run":
        """A simulated motion, up to its first state that is not finite."""
        X, t, plan = (np.asarray(part) for part in (played.X, played.t, played.plan))
        finite = np.isfinite(X).all(axis=1) & np.isfinite(plan).all(axis=1)
        end = len(X) if finite.all() else int(np.argmin(finite))
        if end == 0:
            raise ProblemError("robot: expected a motion that begins with finite states, got one whose first is not")
        every = max(1, round(SEEN / (t[1] - t[0]))) if len(t) > 1 else 1
        kept = np.append(np.arange(0, end - 1, every), end - 1)
        return cls(X[kept], None, played.problem or Bare(played.system), t[kept], plan[kept])


class Motion(NamedTuple):
    """Q (N+1, nq): configurations of ``robot`` at ``times`` (N+1,) [s], which begin at 0.

    name: for the legend.   signals: numbers over time to plot beside it.
    tensions (N, tendons) [N]: of the cables of its rods, in each interval; None: not known.
    world: makes the surroundings that a solution knows; None: no solution.
    """

    name: str
    robot: Drawable
    Q: Array
    times: Array
    signals: Mapping[str, Signal] = {}
    tensions: Array | None = None
    world: Callable[[], World] | None = None


def as_motions(robot: Any, X: Any = None, dt: ArrayLike | None = None) -> list[Motion]:
    """Motions that the arguments ``robot``, ``X``, ``dt`` of ``save_html`` describe, checked; at least one.

    Robots alone stand in their usual posture; one state needs no dt.
    """
    robot = motion_of(robot)
    for field, value in (("X", X), ("dt", dt)):
        if value is not None and isinstance(robot, Solved):
            raise ProblemError(f"{field}: expected none beside a Solution, which knows its states and times")
    if isinstance(robot, Solved):
        return [_solution("robot", "", robot)]
    if isinstance(robot, Mapping):
        return _several(robot, dt)
    usual, robot = getattr(robot, "q0", None), drawn(robot)
    if not isinstance(getattr(robot, "model", None), pin.Model):
        raise ProblemError(f"robot: expected a Robot from mayne.load, or solutions, got {said(robot)}{_meant(robot)}")
    if isinstance(X, Solved):
        solution = _solution("X", "", X)
        if solution.Q.shape[1] != robot.model.nq:
            raise ProblemError(f"X: expected a solution of {robot.name}, got one of {solution.robot.name}")
        return [solution._replace(robot=robot)]
    if X is None and (dt is not None or usual is None):
        raise ProblemError("X: expected it with a robot; a Solution alone knows its robot, states and times")
    Q = configurations("X", usual if X is None else X, robot)
    if dt is None and len(Q) > 1:
        raise ProblemError(f"dt: expected the time from one to the next of {len(Q)} states [s], got none")
    return [Motion("", robot, Q, instants(1.0 if dt is None else dt, len(Q)))]


def _meant(robot: Any) -> str:
    """Say what to give in place of what is no robot, as the end of a sentence."""
    if hasattr(robot, "X"):
        return "; of a simulation give its robot, .X and a step of time"
    if axes(robot) > 0 and not isinstance(robot, (list, tuple)):
        return "; states come after their robot: save_html(path, robot, X, dt)"
    if isinstance(robot, (list, tuple)) and any(isinstance(one, Solved) for one in robot):
        return '; several have names: {"first": solution, "second": other}'
    return "; a problem has no motion before it is solved" if hasattr(robot, "horizon") else ""


def _several(given: Mapping[Any, Any], dt: ArrayLike | None) -> list[Motion]:
    """Solutions by name, and simulations and arrays of states, which are of the first solution's robot."""
    what = "Solutions, or simulations and states (N+1, nx) beside them"
    given = motions_of(given)
    motions = named("robot", given, what)
    if all(isinstance(value, Played) for value in motions.values()):  # the first one's problem is that of all
        given = {name: value if i else Run.of(value) for i, (name, value) in enumerate(motions.items())}
    solutions = [(name, value) for name, value in given.items() if _is_solved(value)]
    if not solutions:
        raise ProblemError(f"robot: expected a mapping from names to {what}, got no Solution")
    first = _solution(f"robot[{said(solutions[0][0])}]", *solutions[0])
    found = []
    for name, value in given.items():
        field = f"robot[{said(name)}]"
        if _is_solved(value):
            found.append(_solution(field, name, value))
            continue
        states = value.X if isinstance(value, Simulated) else value
        Q = configurations(field, states, first.robot)
        if isinstance(value, Simulated):
            found.append(Motion(name, first.robot, Q, instants(np.diff(value.t), len(Q))))
            continue
        if dt is None and len(Q) != len(first.times):
            raise ProblemError(f"{field}: expected {len(first.times)} states, as the first solution has, got {len(Q)}")
        found.append(Motion(name, first.robot, Q, first.times if dt is None else instants(dt, len(Q))))
    return found


def _is_solved(value: Any) -> bool:
    """Whether a motion is a solution, and not one that was simulated."""
    return isinstance(value, Solved) and not (isinstance(value, Played) and not isinstance(value, Run))


def _solution(field: str, name: str, solution: Solved) -> Motion:
    """A solution's motion, up to its first state that is not finite."""
    if solution.problem is None:
        raise ProblemError(f"{field}: expected a solution with its problem: solution.attached(problem) gives it back")
    system, X, U = inside(solution.problem.dynamics, np.asarray(solution.X), solution.U)
    first = len(solution.X) - len(X)
    robot: Any = drawn(getattr(system, "robot", None))
    if not isinstance(getattr(robot, "model", None), pin.Model):
        given = type(system).__name__
        raise ProblemError(
            f"{field}: expected the solution of a robot's problem, got one of {given}; mayne.plot_solution draws those"
        )
    finite = np.isfinite(X).all(axis=1)
    X = X[: len(X) if finite.all() else int(np.argmin(finite))]
    Q = configurations(field, X, robot)
    lasting = getattr(system, "durations", None)  # where steps differ
    steps = system.dt if lasting is None else lasting[: len(Q) - 1]
    if isinstance(solution, Simulated):
        steps = np.diff(solution.t)[first:][: len(Q) - 1]
    signals = signals_of(solution) if isinstance(solution, Told) and finite.all() else {}
    pulled = len(robot.cables) if isinstance(robot, Chain) else 0
    U = None if U is None or len(Q) == 1 else U[: len(Q) - 1]
    tensions = U[:, :pulled] if pulled and U is not None else None
    bare = isinstance(solution.problem, Bare)
    made = partial(ground_of, system) if bare else partial(world_of, solution, system, X, U, first)
    return Motion(name, robot, Q, instants(steps, len(Q)), signals, tensions, made)


def configurations(field: str, X: Any, robot: Any) -> Array:
    """Configurations (N, nq) of the model that draws a robot; X: its states or configurations (N, nx | nq), or one."""
    if isinstance(X, Solved):
        X = X.X
    array = np.atleast_2d(as_array(field, X, (None, None) if axes(X) > 1 else (None,)))
    sizes = robot if isinstance(robot, Chain) else robot.model
    if array.shape[1] not in (sizes.nq, sizes.nq + sizes.nv):
        raise ProblemError(
            f"{field}: expected states of {sizes.nq + sizes.nv} numbers or configurations of {sizes.nq}"
            f" for {sizes.name}, got {array.shape[1]}"
        )
    if len(array) == 0:
        raise ProblemError(f"{field}: expected at least one state, got none")
    Q = array[:, : sizes.nq]
    if isinstance(robot, Chain):
        return robot.configurations(Q)
    for k, q in enumerate(Q):
        if not pin.isNormalized(sizes, q, 1e-6):
            raise ProblemError(f"{field}[{k}]: expected quaternions and (cos, sin) of length one, got {numbers(q)}")
    return Q
