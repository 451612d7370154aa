"""Clearances of one robot at the same knots are evaluated together: as each by itself."""

import pickle
from contextlib import suppress

import numpy as np
import pytest

from ddp.constraints import row_table
from ddp.constraints.placement import Placed
from ddp.constraints.rows import Rows
from ddp.errors import ProblemError
from dynamics.robots.model import load
from problems.constraints import FramePositionEquality, VelocityLimits
from problems.obstacles import Capsule, CapsuleClearance, Sphere, SphereClearance
from tests.problems.conftest import random_state

SERIAL = ["shoulder_link", "upper_arm_link", "forearm_link", "wrist_1_link", "wrist_2_link", "wrist_3_link", "tool0"]


def rows_of(constraints, knots, N, robot, nu):
    """Rows of constraints, each at its own knots."""
    placed, first = [], 0
    for i, (one, (start, stop)) in enumerate(zip(constraints, knots, strict=True)):
        lower, upper = (np.tile(bound, (stop - start, 1)) for bound in (one.lower, one.upper))
        placed.append(Placed(f"constraints[{i}]", one, start, stop, first, lower, upper))
        first += lower.size
    return Rows(placed, N, 2 * robot.nv, nu)


def obstacles(rng, count):
    return [
        Sphere(rng.normal(size=3), 0.1) if rng.random() < 0.5 else Capsule(*rng.normal(size=(2, 3)), 0.1)
        for _ in range(count)
    ]


def clearance(robot, frames, rng):
    """A ball or a capsule of some of the frames, clear of one to three obstacles."""
    chosen, seen = rng.choice(frames, 2, replace=False), obstacles(rng, int(rng.integers(1, 4)))
    if rng.random() < 0.4:
        return SphereClearance(robot, str(chosen[0]), 0.05, seen)
    return CapsuleClearance(robot, (str(chosen[0]), str(chosen[1])), 0.05, seen)


def check(rows, robot, rng, nu):
    """Rows are as each constraint's own; by how many calls they are evaluated."""
    N, n = rows.horizon, 2 * robot.nv
    X, U = np.array([random_state(robot, rng) for _ in range(N + 1)]), rng.normal(size=(N, nu))
    y = rng.normal(size=rows.size)
    y[rng.random(rows.size) < 0.3] = 0.0
    padded = np.concatenate([U, np.zeros((1, nu))])
    c, J, H = rows.values(X, U), rows.jacobian(X, U), np.zeros((N + 1, n + nu, n + nu))
    rows.add_curvature(X, U, y, H)
    for entry, e in zip(rows.placed, rows.table, strict=True):
        at, one, found = slice(entry.start, entry.stop), entry.constraint, entry.constraint.compiled
        np.testing.assert_array_equal(entry.own(c), one.values(X[at], padded[at]))
        own, count = one.jacobian(X[at], padded[at]), entry.lower.size * found.width
        kept = J[e[row_table.NUMBER] : e[row_table.NUMBER] + count].reshape(*entry.lower.shape, found.width)
        columns = (np.arange(own.shape[1]), found.columns, None) if found.diagonal else (slice(None), found.columns)
        np.testing.assert_array_equal(kept, own[:, *columns])
        H[at] -= one.curvature(X[at], padded[at], entry.own(y))
    np.testing.assert_allclose(H, 0.0, atol=1e-11)
    return [int(count) for count in rows.table[:, row_table.COUNT]]


@pytest.mark.parametrize("N", [1, 7, 8, 20])
def test_clearances_of_one_chain_are_as_each_by_itself(N):
    robot, rng = load("ur5"), np.random.default_rng(N)
    for _ in range(3):
        count = int(rng.integers(2, 5))
        made = [clearance(robot, SERIAL, rng) for _ in range(count)] + [VelocityLimits(robot)]
        rows = rows_of(made, [(0, N + 1)] * len(made), N, robot, 6)
        assert check(rows, robot, rng, 6) == [count] + [0] * (count - 1) + [1]
        assert check(pickle.loads(pickle.dumps(rows)), robot, rng, 6) == [count] + [0] * (count - 1) + [1]
        moved = [entry._replace(constraint=entry.constraint.varied(radii=[0.2] * len(entry.constraint.obstacles)))
                 for entry in rows.placed[:-1]]  # fmt: skip
        assert check(rows.moved([*moved, rows.placed[-1]]), robot, rng, 6) == [count] + [0] * (count - 1) + [1]


@pytest.mark.parametrize("name", ["hyq", "mixed"])
def test_clearances_of_trees_are_as_each_by_itself(robots, rng, name):
    robot, N = robots[name], 9
    frames = [n for n in robot.frame_names if n != "universe"]
    joined = set()
    for _ in range(6):
        made = []
        while len(made) < 6:
            with suppress(ProblemError):  # no joint moves what was chosen
                made.append(clearance(robot, frames, rng))
        knots = [((0, N + 1), (0, N), (N, N + 1))[k] for k in rng.choice(3, 6, p=(0.8, 0.1, 0.1))]
        joined |= set(check(rows_of(made, knots, N, robot, 3), robot, rng, 3))
    assert 1 in joined


def test_only_clearances_of_the_same_robot_chain_and_knots_are_together(robots, rng):
    robot, hyq = load("ur5"), robots["hyq"]
    ball = [Sphere(np.ones(3), 0.1)]
    tool, wrist = SphereClearance(robot, "tool0", 0.0, ball), SphereClearance(robot, "wrist_1_link", 0.0, ball)
    point, other = FramePositionEquality(robot, "tool0", np.ones(3)), SphereClearance(load("ur5"), "tool0", 0.0, ball)
    everywhere, running = (0, 6), (0, 5)
    for made, knots, counts in (
        ((wrist, tool, wrist), (everywhere, everywhere, everywhere), [3, 0, 0]),
        ((wrist, point, tool, wrist), (everywhere,) * 4, [1, 1, 2, 0]),
        ((wrist, tool, wrist), (everywhere, running, running), [1, 2, 0]),
    ):
        assert check(rows_of(made, knots, 5, robot, 6), robot, rng, 6) == counts
    if tool.robot is not other.robot:
        assert check(rows_of((tool, other), (running,) * 2, 5, robot, 6), robot, rng, 6) == [1, 1]
    feet = [SphereClearance(hyq, name, 0.05, ball) for name in ("lf_foot", "rf_foot", "rf_foot")]
    assert check(rows_of(feet, (running,) * 3, 5, hyq, 12), hyq, rng, 12) == [1, 2, 0]
