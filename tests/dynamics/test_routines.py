"""Routines that are compiled for their robot, against those of all robots, on trees of all kinds of joints."""

import ctypes
import pickle
from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from oracles import random_state, random_tree
from thorough import cases

import dynamics
from ddp.machine.following import eight_of
from ddp.machine.trajectories import Trajectory
from ddp.systems.structure import numbers_of_blocks, structure_of
from dynamics.steps import routines

N = 11  # a register of eight knots, and another that is partly filled


def place(array):
    return int(array.ctypes.data)


def called(made, name, struct, *words):
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(made.address(name))
    call(made.context, struct.address, *words)


def differentiated(made, system, X, U, weights):
    """A, B and second order of a trajectory."""
    n, nu, structure = system.n, system.nu, structure_of(system, N)
    size = numbers_of_blocks(n // 2, structure.halves[1]) if structure.blockwise else (n + nu) ** 2
    A, B, T = np.zeros((N, n, n)), np.zeros((N, n, nu)), np.zeros((N, size))
    record = np.zeros((N, system.record_size))
    trajectory = Trajectory(
        N=N, nx=system.nx, n=n, nu=nu, records=system.record_size, X=place(X), U=place(U), A=place(A), B=place(B),
        record=place(record), weights=place(weights), T=place(T), size=size,
    )  # fmt: skip
    called(made, "expand", trajectory, 1, 1)
    called(made, "contract", trajectory, 0, 0)
    return A, B, T


KNOWN = [(0, "semi-implicit-euler"), (2, "rk4"), (12, "semi-implicit-euler")]


@pytest.mark.parametrize(("seed", "integrator"), cases(KNOWN, KNOWN[:2]))
def test_a_robot_s_own_code_computes_what_that_of_all_does(seed, integrator, rng):
    robot = random_tree(seed, bodies=3)
    assert robot.nv <= routines.MOST
    system = dynamics.RobotDynamics(robot, 0.01, integrator=integrator)
    X = np.array([np.concatenate(random_state(robot, rng)[:2]) for _ in range(N + 1)])
    U, weights = rng.normal(size=(N, system.nu)), rng.normal(size=(N, system.n))
    parts = [differentiated(system.routines(N, alone), system, X, U, weights) for alone in (True, False)]
    for shared, own in zip(*parts, strict=True):
        np.testing.assert_allclose(own, shared, rtol=0.0, atol=1e-11 * max(1.0, np.abs(shared).max()))


def apart():
    """Two bodies that know nothing of each other."""
    model = pin.Model()
    for name in ("one", "other"):
        joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), name)
        model.appendBodyToJoint(joint, pin.Inertia(1.0, np.array([0.0, 0.2, 0.1]), 0.1 * np.eye(3)), pin.SE3.Identity())
    return dynamics.load(model)


@pytest.mark.parametrize(("most", "build"), [(0, partial(random_tree, 0, bodies=3)), (99, apart)])
def test_eight_problems_are_followed_as_one_is_rolled_out(most, build, rng, monkeypatch):
    monkeypatch.setattr(routines, "MOST", most)
    robot = build()
    system = dynamics.RobotDynamics(robot, 0.01)
    nx, n, nu = system.nx, system.n, system.nu
    X = np.array([np.tile(np.concatenate(random_state(robot, rng)[:2]), (N + 1, 1)) for _ in range(8)])
    U, k, K = rng.normal(size=(8, N, nu)), np.zeros((8, N, nu)), np.zeros((8, N, nu, n))
    to_X, to_U, gaps = np.zeros_like(X), np.zeros_like(U), np.zeros((8, N, n))
    free = np.full((N, nu), np.inf)
    limits = -free, free
    given = {"X": X, "U": U, "k": k, "K": K, "to_X": to_X, "to_U": to_U, "gaps": gaps}
    eight = eight_of(N, nx, n, nu)
    eight.lower, eight.upper = map(place, limits)
    eight.alphas[:] = 1.0
    for name, parts in given.items():
        getattr(eight, name)[:] = [place(part) for part in parts]
    U[3, 6, 0] = np.nan  # no speed is a number afterwards, neither those of other branches
    called(system.routines(N), "follow", eight, 0, 0)
    assert np.isnan(to_X[3, 7:, robot.nq :]).all()
    for i in range(8):
        stop = 6 if i == 3 else N
        expected = system.rollout(X[i, 0], U[i, :stop])
        atol = 1e-10 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(to_X[i, : stop + 1], expected, rtol=0.0, atol=atol)


def test_robots_of_varied_masses_share_their_code():
    system = dynamics.RobotDynamics(random_tree(0, bodies=3), 0.01)
    varied = [system.varied(factor * system.masses) for factor in (1.1, 1.2)]
    made = [one.routines(N) for one in (*varied, pickle.loads(pickle.dumps(varied[0])))]
    assert len({one.address("expand") for one in made}) == 1


def test_routines_in_the_memory_of_others_compute_the_same_bits(rng):
    robot = random_tree(0, bodies=3)
    system = dynamics.RobotDynamics(robot, 0.01)
    X = np.array([np.concatenate(random_state(robot, rng)[:2]) for _ in range(N + 1)])
    U, weights = rng.normal(size=(N, system.nu)), rng.normal(size=(N, system.n))
    before = system.routines(N, True)
    first = differentiated(before, system, X, U, weights)
    for other in (system.varied(1.3 * system.masses), dynamics.RobotDynamics(robot, 0.02)):
        expected = differentiated(other.routines(N, True), other, X, U, weights)
        made = other.routines(N, True, before)
        assert made.context == before.context
        found, before = differentiated(made, other, X, U, weights), made
        assert all(map(np.array_equal, found, expected))
        assert not np.array_equal(found[0], first[0])


@pytest.mark.parametrize(
    ("bodies", "integrator", "count", "alone"),
    [(4, "euler", N, True), (3, "rk4", N, True), (3, "euler", N + 1, True), (3, "euler", N, False)],
)
def test_routines_take_no_memory_of_other_sizes(bodies, integrator, count, alone):
    before = dynamics.RobotDynamics(random_tree(0, bodies=3), 0.01, integrator="euler").routines(N, True)
    other = dynamics.RobotDynamics(random_tree(0, bodies=bodies), 0.01, integrator=integrator)
    assert other.routines(count, alone, before).context != before.context
