"""Linearisation of a moving base against geometric differences, as its paper validates it.

A branched robot on a free base, with revolute, prismatic and helical joints, is linearised exactly and by differences:
one-sided and central ones, along every direction of the tangent space, in steps δ from 0.1 down to 1e-13. Differences
err by truncation, of order δ or δ², until rounding takes over, of order 1/δ. If the exact matrix erred, that would be
the floor of the curves. Bos, Traversaro, Pucci & Saccon, J. Geometric Mechanics, 2022, figures 4 and 5.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import dynamics
from ddp.protocols import Array
from dynamics.robots.libraries import pin

DELTAS = 10.0 ** np.arange(-1.0, -13.25, -0.25)
"""Steps of the sweep [m, rad, m/s, rad/s]."""

FLOOR = 1e-8
"""The largest error of central differences at their best step that is accepted, relative to the largest entry of A."""

POSITION = 0.3
"""Positions of all joints [m or rad]."""


class State(NamedTuple):
    """A configuration q (nq,), velocities v and torques tau (nv,)."""

    q: Array
    v: Array
    tau: Array


@dataclass(frozen=True, eq=False)
class DifferenceSweep:
    """Errors of differences for every step in ``deltas`` (k,), as functions of the exact A.

    one_sided, central (k, 2): the largest and the average error of all entries.   scale: the largest entry of A.
    slopes: of the largest errors of one-sided and central differences where truncation rules, and of their averages
    where rounding does, in decades per decade.
    """

    deltas: Array = field(repr=False)
    one_sided: Array = field(repr=False)
    central: Array = field(repr=False)
    scale: float

    @property
    def slopes(self) -> tuple[float, float, float]:
        """One-sided, central, and rounding's: 1, 2 and -1 are expected."""
        truncated, rounded = (self.deltas <= 1.1e-2) & (self.deltas >= 0.9e-4), self.deltas < 1e-9
        averages = np.sqrt(self.one_sided[:, 1] * self.central[:, 1])
        return (
            self._slope(self.one_sided[:, 0], truncated), self._slope(self.central[:, 0], truncated),
            self._slope(averages, rounded),
        )  # fmt: skip

    @property
    def floor(self) -> float:
        """The largest error of central differences at their best step, relative to ``scale``."""
        return float(self.central[:, 0].min() / self.scale)

    @property
    def ok(self) -> bool:
        """Whether differences converge to the exact matrix as far as rounding lets them."""
        expected = np.array([1.0, 2.0, -1.0])
        return bool(np.abs(np.array(self.slopes) - expected).max() < 0.2 and self.floor <= FLOOR)

    def __str__(self) -> str:
        rows = [f"{'step':>8}  {'one-sided':>19}  {'central':>19}", f"{'':>8}" + 2 * f"  {'largest':>9} {'average':>9}"]
        for delta, one, two in zip(self.deltas[::4], self.one_sided[::4], self.central[::4], strict=True):
            rows.append(f"{delta:8.0e}  {one[0]:9.1e} {one[1]:9.1e}  {two[0]:9.1e} {two[1]:9.1e}")
        slopes = ", ".join(f"{slope:.2f}" for slope in self.slopes)
        rows.append(f"slopes {slopes} (expected 1, 2, -1), floor {self.floor:.1e} of the largest entry of A")
        rows.append("A is exact" if self.ok else "A is WRONG, or differences are")
        return "\n".join(rows)

    def _slope(self, errors: Array, where: NDArray[np.bool_]) -> float:
        return float(np.polyfit(np.log10(self.deltas[where]), np.log10(errors[where]), 1)[0])


def branched(gravity: ArrayLike = (0.0, 0.0, -9.81)) -> dynamics.Robot:
    """The robot: a free base with two limbs, of which one forks; joints R, P, H, R, H, P; gravity [m/s²]."""
    rng, model = np.random.default_rng(7), pin.Model()
    model.name, model.gravity = "branched", pin.Motion(np.array([*np.asarray(gravity), 0.0, 0.0, 0.0]))
    limbs = (
        ("root", 0, pin.JointModelFreeFlyer()),
        ("first revolute", 1, pin.JointModelRevoluteUnaligned(*_axis(rng))),
        ("first prismatic", 2, pin.JointModelPrismaticUnaligned(*_axis(rng))),
        ("first helical", 2, pin.JointModelHelicalUnaligned(*_axis(rng), 0.05)),
        ("second revolute", 1, pin.JointModelRZ()),
        ("second helical", 5, pin.JointModelHX(-0.08)),
        ("second prismatic", 6, pin.JointModelPY()),
    )
    for name, parent, joint in limbs:
        place = pin.SE3(pin.exp3(rng.normal(size=3)), rng.uniform(-0.3, 0.3, 3)) if parent else pin.SE3.Identity()
        index = model.addJoint(parent, joint, place, name)
        box = pin.Inertia.FromBox(rng.uniform(0.5, 4.0), *rng.uniform(0.1, 0.4, 3))
        offset = pin.SE3(pin.exp3(rng.normal(size=3)), rng.uniform(-0.1, 0.1, 3))
        model.appendBodyToJoint(index, box, offset)
    return dynamics.load(model)


def perturbed(robot: dynamics.Robot) -> State:
    """All joints at ``POSITION``, with a base, velocities and torques no two numbers of which are the same."""
    rng = np.random.default_rng(11)
    q = robot.random_configuration(rng)
    for joint in list(robot.model.joints)[1:]:
        if joint.nq == 1:
            q[joint.idx_q] = POSITION
    return State(q, *rng.uniform(0.2, 1.5, (2, robot.nv)) * rng.choice([-1.0, 1.0], (2, robot.nv)))


def sweep(robot: dynamics.Robot, state: State, deltas: Array = DELTAS) -> DifferenceSweep:
    """Compare A of ``dynamics.linearize`` with differences of Pinocchio's forward dynamics, for every step."""
    model, data, (q, v, tau) = robot.model, robot.model.createData(), state
    exact, n = dynamics.linearize(robot, q, v, tau).A, 2 * robot.nv
    here = pin.aba(model, data, q, v, tau)

    def rate(dx: Array) -> Array:
        """The rate of a deviation dx = (Δ, δv): (v + δv) - Ad_{Exp(-Δ)} v, and that of velocities."""
        dq, dv = np.split(dx, 2)
        moved = v + dv - pin.dIntegrate(model, q, dq, pin.ARG0) @ v
        return np.concatenate([moved, pin.aba(model, data, pin.integrate(model, q, dq), v + dv, tau) - here])

    errors = []
    for delta in deltas:
        ahead, behind = (np.stack([rate(s * delta * e) for e in np.eye(n)], axis=1) for s in (1.0, -1.0))
        for estimate in (ahead / delta, (ahead - behind) / (2.0 * delta)):
            error = np.abs(estimate - exact)
            errors.append((error.max(), error.mean()))
    found = np.array(errors).reshape(len(deltas), 2, 2)
    return DifferenceSweep(np.asarray(deltas), found[:, 0], found[:, 1], float(np.abs(exact).max()))


def _axis(rng: np.random.Generator) -> Array:
    axis = rng.normal(size=3)
    return np.asarray(axis / np.linalg.norm(axis))
