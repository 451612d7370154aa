"""Motion of a system from a state under controls that are known in advance, by steps as short as it needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import (
    ProblemError,
    affordable,
    as_array,
    axes,
    choice,
    instance,
    other_arguments,
    pointing,
    positive,
    said,
)
from ddp.protocols import Array
from dynamics.geometry.joint_motion import ROD
from dynamics.rigid_bodies.rigid_body import mass_matrix
from dynamics.robots import loop
from dynamics.robots.joints import UNIT_NUMBERS
from dynamics.steps.robot_dynamics import RobotDynamics

FINEST = 12
"""The shortest step is the system's, halved so often."""


@pointing()
@dataclass(frozen=True, eq=False)
class Motion:
    """Simulated motion, N of the system's steps long.

    t (N+1,) [s], X (N+1, nx): states.   U (N, nu): the controls, in the middle of each step; of prescribed joints,
    those whose S u are their accelerations.
    steps: how many were taken, rejected ones with them.   NaN from where no step finds an end.
    """

    t: Array = field(repr=False)
    X: Array = field(repr=False)
    U: Array = field(repr=False)
    steps: int


def simulate(
    system: RobotDynamics, x0: ArrayLike, u: Callable[[float], ArrayLike] | ArrayLike, seconds: float,
    tolerance: float | None = None, prescribed: Mapping[str, Callable[[float], float]] | None = None,
) -> Motion:  # fmt: skip
    """The motion of a robot from x0 (nx,) for so many seconds, to whole steps of ``system.dt``: a `Motion`.

    u: controls as a function of time [s] to (nu,), read in the middle of each step and held over it; or (nu,) for all
    times; or (N, nu), one row a step.
    tolerance: the largest error of a state's tangent [rad, m, rad/s, m/s] that a step of dt may make, as two half steps
    show it: steps are halved, down to dt / 4096, until they keep it. None: all steps are dt.
    prescribed: of joints of one degree of freedom, by name, their positions [rad, m] as functions of time, for implicit
    steps. What x0 and u say of these joints does not count. Velocities are the functions' slopes at each step's end; so
    are positions of "implicit-euler" steps, and others' to the order of the steps.
    """
    instance("system", system, RobotDynamics)
    followed = _followed(system, {} if prescribed is None else prescribed)
    if others := followed.keys() - set(system.prescribed):
        system = RobotDynamics(system.robot, *system._given()[:-1], (*system.prescribed, *sorted(others)))
    dt = system.dt
    steps = positive("seconds", seconds) / dt
    affordable("seconds", seconds, int(min(steps, 1e30)) * (2 + system.nx + 2 * system.nu))
    N = round(steps)
    if N < 1 or abs(N * dt - seconds) > 1e-6 * dt * N:
        raise ProblemError(f"seconds: expected a multiple of the system's step of {dt} s, got {seconds}")
    t: Array = dt * np.arange(N + 1, dtype=np.float64)
    at, start = _controls(system, u, N, list(followed.values())), as_array("x0", x0, (system.nx,)).copy()
    for joint in followed.values():
        start[joint.q], start[system.robot.nq + joint.v] = joint.position(0.0), joint.speed(0.0, dt)
    system.check_state("x0", start)
    U = np.stack([at(time + 0.5 * dt, dt) for time in t[:-1]])
    if tolerance is None:
        return Motion(t, system.rollout(start, U), U, N)
    return _adapted(system, start, at, t, U, positive("tolerance", tolerance))


@dataclass(frozen=True)
class _Followed:
    """A joint that follows a function of time: its number in q, in v, and the column of its control."""

    name: str
    function: Callable[[float], float]
    q: int
    v: int
    column: int
    backward: bool

    def position(self, time: float) -> float:
        return float(as_array(f"prescribed[{self.name!r}](t)", self.function(time), ()))

    def speed(self, time: float, h: float) -> float:
        """The slope at a time, or how fast a step of length h must be that ends there and looks at its end alone."""
        if self.backward and time >= h * (1.0 - 1e-9):
            return (self.position(time) - self.position(time - h)) / h
        d = min(1e-3, 0.25 * h)
        first = 0.0 if time < 2.0 * d else -2.0
        weights = (-25.0, 48.0, -36.0, 16.0, -3.0) if time < 2.0 * d else (1.0, -8.0, 0.0, 8.0, -1.0)
        return sum(w * self.position(time + (first + k) * d) for k, w in enumerate(weights)) / (12.0 * d)

    def acceleration(self, middle: float, h: float) -> float:
        return (self.speed(middle + 0.5 * h, h) - self.speed(middle - 0.5 * h, h)) / h


def _followed(system: RobotDynamics, prescribed: Mapping[str, Callable[[float], float]]) -> dict[str, _Followed]:
    """The joints that follow functions of time."""
    instance("prescribed", prescribed, Mapping, "functions of time by names of joints")
    robot, found = system.robot, {}
    for name, function in prescribed.items():
        choice("prescribed", name, robot.joint_names, f"{robot.name} has no joint")
        if not callable(function):
            raise ProblemError(f"prescribed[{name!r}]: expected a function of time, got {said(function)}")
        b = robot.joint_names.index(name)
        i = int(robot.tree.iv[b])
        if robot.tree.nj[b] != 1 or robot.tree.kind[b] in (*UNIT_NUMBERS, ROD):
            raise ProblemError(f"prescribed: expected a joint whose q is one angle or length, got {name!r}")
        columns = np.flatnonzero(system.actuation[i])
        column = int(columns[0]) if len(columns) == 1 else -1
        backward = system.integrator == "implicit-euler"
        found[name] = _Followed(name, function, int(robot.tree.iq[b]), i, column, backward)
    return found


def _controls(
    system: RobotDynamics, u: Callable[[float], ArrayLike] | ArrayLike, N: int, followed: list[_Followed]
) -> Callable[[float, float], Array]:
    """Controls (nu,) of a step by its middle and length."""
    if callable(u):
        if own := other_arguments(u, 1):
            loop_of = "feedback is stepped by a loop: x = system.step(x, policy(t, x))"
            raise ProblemError(f"u: expected a function of time, got one of {own}; {loop_of}")
        at: Callable[[float], Array] = lambda time: as_array("u(t)", u(time), (system.nu,))  # noqa: E731
    elif axes(u) < 2:
        constant = as_array("u", u, (system.nu,))
        at = lambda time: constant  # noqa: E731
    else:
        rows = as_array("u", u, (N, system.nu))
        at = lambda time: rows[min(int(time / system.dt), N - 1)]  # noqa: E731

    def controls(middle: float, h: float) -> Array:
        found = at(middle).copy()  # a function of time may return the same array each time
        for joint in followed:
            found[joint.column] = joint.acceleration(middle, h) / system.actuation[joint.v, joint.column]
        return found

    return controls


def _adapted(
    system: RobotDynamics, x: Array, at: Callable[[float, float], Array], t: Array, U: Array, tolerance: float
) -> Motion:
    """Motion by step doubling: dt / 2^k, k as small as the tolerance allows."""
    s, finer, taken, k, whole = system, [system], 0, 0, 1 << FINEST
    X = np.full((len(t), system.nx), np.nan)
    X[0] = x
    for i, begin in enumerate(t[:-1]):
        place = 0  # in units of the finest step
        while place < whole and np.isfinite(x).all():
            if len(finer) < k + 2:
                finer.append(RobotDynamics(s.robot, s.dt / 2 ** (k + 1), *s._given()[1:]))
            length, time, h = whole >> k, begin + s.dt * place / whole, s.dt / 2**k
            once = finer[k].step(x, at(time + 0.5 * h, h))
            half = finer[k + 1].step(x, at(time + 0.25 * h, 0.5 * h))
            twice = finer[k + 1].step(half, at(time + 0.75 * h, 0.5 * h)) if np.isfinite(half).all() else half
            taken += 3
            ended = np.isfinite(once).all() and np.isfinite(twice).all()
            error = _error(s, once, twice, length / whole) if ended else np.inf
            if error <= tolerance or k + 1 >= FINEST:
                x, place = twice, place + length
                if error < 0.1 * tolerance and k > 0 and place % (2 * length) == 0:
                    k -= 1
            else:
                k += 1
        X[i + 1] = x
        if not np.isfinite(x).all():
            break
    return Motion(t, X, U, taken)


def _error(s: RobotDynamics, once: Array, twice: Array, share: float) -> float:
    """Distance after dt that steps of this share of dt would be off by, as one step and two halves of it show.

    Velocities across loops do not add up: each step closes them anew. They are off by O(h), which a share of the
    tolerance could never bound: they are left out.
    """
    apart, across = s.difference(once, twice), 0.0
    if s.robot.loops:
        q, v = twice[: s.robot.nq], apart[-s.robot.nv :]
        J = loop.errors(s.robot.mechanism, s.robot.loops, q)[1]
        pulled = np.linalg.solve(mass_matrix(s.robot, q), J.T)
        normal = pulled @ np.linalg.lstsq(J @ pulled, J @ v)[0]
        v -= normal
        across = float(np.abs(normal).max())
    return max(float(np.abs(apart).max()) / share, across)
