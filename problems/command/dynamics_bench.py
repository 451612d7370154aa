"""Speed of the dynamics: against Pinocchio's C++ called per knot from Python, and over chains.

One thread, warm; ``KNOTS`` random states in one call of ours, which returns new arrays (tensors: in the memory of the
call before, as new memory would take longer than they do), and in as many of Pinocchio's.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

import dynamics
from ddp.protocols import Array
from dynamics.robots.libraries import pin

KNOTS = 104
ROBOTS = ("ur5", "hyq", "talos")
CHAINS = {10: 1.1, 20: 4.7, 30: 12.6}
"""Links, and microseconds of both orders of forward dynamics where those of hyq take 2.3."""

HYQ = 2.3
SLACK = 1.3


class Row(NamedTuple):
    """One comparison: what takes ``microseconds`` a knot and Pinocchio's ``reference`` other ones; the ratio's bar."""

    quantity: str
    robot: str
    microseconds: float
    reference: float
    ratio: float
    bar: float

    @property
    def cells(self) -> list[str]:
        """A line of a table."""
        return [self.quantity, self.robot, *(f"{x:.3g}" for x in self[2:])]


class Case(NamedTuple):
    """One comparison before it is timed: both sides as functions of so many knots."""

    quantity: str
    robot: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    knots: int
    bar: float


BARS = {
    "first-order ID / computeRNEADerivatives": (0.10, 0.10, 0.10),
    "first-order FD / computeABADerivatives": (0.10, 0.13, 0.20),
    "A and B in continuous time / computeABADerivatives": (0.13, 0.15, 0.25),
    "inverse mass matrix / computeMinverse": (0.35, 0.45, 0.6),
    "FD, first and contracted second order / computeABADerivatives": (0.15, 0.25, 0.40),
    "ID tensors, in the memory of earlier ones / computeRNEADerivatives": (0.35, 1.4, 6.0),
    "first-order FD, one knot at a time / computeABADerivatives": (0.8, 0.8, 1.0),
}
"""The largest ratios aimed at, for each of ``ROBOTS``."""


class Samples(NamedTuple):
    """Random states (KNOTS, .) of a robot: q, and v, a, a weight."""

    q: Array
    v: Array
    a: Array
    weight: Array


def samples(robot: dynamics.Robot) -> Samples:
    """Random samples from a fixed seed, computed once."""
    rng = np.random.default_rng(0)
    q = np.stack([robot.random_configuration(rng) for _ in range(KNOTS)])
    return Samples(q, *rng.normal(size=(3, KNOTS, robot.nv)))


def cases(name: str) -> Iterator[Case]:
    """The comparisons of one robot, in the order of ``BARS``."""
    robot = dynamics.load(name)
    model, data, s = robot.model, robot.model.createData(), samples(robot)
    one, q, v, a = dynamics.OneSample(robot), s.q[0], s.v[0], s.a[0]
    same = [q] * KNOTS, [v] * KNOTS, [a] * KNOTS
    inverse, forward, masses = (
        partial(function, model, data)
        for function in (pin.computeRNEADerivatives, pin.computeABADerivatives, pin.computeMinverse)
    )
    pin_inverse, pin_forward = per_knot(inverse, s.q, s.v, s.a), per_knot(forward, s.q, s.v, s.a)
    pairs = (
        (lambda: dynamics.inverse_dynamics_derivatives(robot, s.q, s.v, s.a), pin_inverse),
        (lambda: dynamics.forward_dynamics_derivatives(robot, s.q, s.v, s.a), pin_forward),
        (lambda: dynamics.linearize(robot, s.q, s.v, s.a), pin_forward),
        (lambda: dynamics.inverse_mass_matrix(robot, s.q), per_knot(masses, s.q)),
        (lambda: dynamics.forward_dynamics_both_derivatives(robot, s.q, s.v, s.a, s.weight), pin_forward),
        (tensors(robot, s), pin_inverse),
        (per_knot(one.forward_dynamics_derivatives, *same), per_knot(forward, *same)),
    )
    for (quantity, bars), (ours, theirs) in zip(BARS.items(), pairs, strict=True):
        yield Case(quantity, name, ours, theirs, KNOTS, bars[ROBOTS.index(name)])


def tensors(robot: dynamics.Robot, s: Samples) -> Callable[[], None]:
    """Second derivatives of inverse dynamics as tensors, in the memory of the call before."""
    kept: list[dynamics.InverseTensors | None] = [None]

    def call() -> None:
        kept[0] = dynamics.inverse_dynamics_second_derivatives(robot, s.q, s.v, s.a, out=kept[0])

    return call


def per_knot(function: Callable[..., object], *columns: Iterable[Array]) -> Callable[[], None]:
    """A function of one knot, called for each row of some columns."""

    def call() -> None:
        for row in zip(*columns, strict=True):
            function(*row)

    return call


def measure(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The best time of each [s], warm, taken in turns, five calls at a time so that each finds its data at hand."""
    best = [np.inf] * len(functions)
    for function in functions:
        function()
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turns == 0:
        turns += 1
        for k, function in enumerate(functions):
            for _ in range(5):
                start = time.perf_counter()
                function()
                best[k] = min(best[k], time.perf_counter() - start)
    return best


def compare(case: Case, seconds: float) -> Row:
    """A case, timed."""
    ours, theirs = (1e6 * t / case.knots for t in measure((case.ours, case.theirs), seconds))
    return Row(case.quantity, case.robot, ours, theirs, ours / theirs, case.bar)


def tree(bodies: int, branching: int = 1) -> dynamics.Robot:
    """A tree of hinges about x, y, z in turn, each body with so many children; links of random inertia."""
    rng, model = np.random.default_rng(bodies), pin.Model()
    model.name = f"{bodies} bodies, {branching} children each"
    for i in range(bodies):
        joint = (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ)[i % 3]()
        parent = 0 if i == 0 else 1 + (i - 1) // branching
        index = model.addJoint(parent, joint, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.3 * (i > 0)])), f"joint_{i + 1}")
        inertia = pin.Inertia(1.0 + rng.random(), 0.1 * rng.normal(size=3), np.diag(0.1 + 0.1 * rng.random(3)))
        model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
    return dynamics.load(model)


def rows(seconds: float) -> list[Row]:
    """All comparisons of all robots."""
    return [compare(case, seconds) for robot in ROBOTS for case in cases(robot)]


def both_orders(robot: dynamics.Robot) -> Callable[[], object]:
    """Forward dynamics with both orders of derivatives, the second contracted, of ``KNOTS`` knots."""
    s = samples(robot)
    return lambda: dynamics.forward_dynamics_both_derivatives(robot, s.q, s.v, s.a, s.weight)


def scaling(seconds: float) -> list[Row]:
    """Chains of revolute joints: microseconds a knot, against the growth expected from hyq's; bars on their ratio."""
    robots = [dynamics.load("hyq"), *map(tree, CHAINS)]
    hyq, *times = (1e6 * t / KNOTS for t in measure([both_orders(robot) for robot in robots], seconds))
    rows = []
    for (links, figure), t in zip(CHAINS.items(), times, strict=True):
        expected = figure * hyq / HYQ
        rows.append(Row("both orders / expected from hyq's", f"chain {links}", t, expected, t / expected, SLACK))
    return rows
