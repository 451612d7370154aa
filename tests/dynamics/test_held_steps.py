"""Steps that end with contacts exactly where they are held: against Pinocchio, and against differences of steps."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET, points_of_a_shank
from oracles import (
    chain_of,
    contract_rows,
    fourth_order,
    passive,
    random_inertia,
    random_joint,
    random_placement,
    random_tree,
    relative_error,
    sprung,
)
from step_oracles import (
    assert_blocks_are_hessians,
    assert_first_order,
    assert_memory_does_not_matter,
    assert_second_order,
)

import dynamics
from ddp.errors import ModelError, ProblemError
from ddp.systems.system import Expansion
from dynamics import Contact, Phase, PhasedDynamics


def held(robot, q, frames, kind="point"):
    """Contacts held where frames are in a posture."""
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    poses = [data.oMf[robot.frame_id(frame)].copy() for frame in frames]
    if kind == "point":
        return [Contact(frame, target=pose.translation) for frame, pose in zip(frames, poses, strict=True)]
    return [Contact(frame, kind, pose, reference="local") for frame, pose in zip(frames, poses, strict=True)]


def quadruped(rng):
    """anymal on three feet and on one."""
    robot = dynamics.load("anymal")
    feet = held(robot, robot.q0, FEET["anymal"][:3])
    return PhasedDynamics(robot, 0.01, [Phase(feet, 1, held=True), Phase(feet[1:2], 1, held=True)])


def biped(rng):
    """talos on one sole, which is in its place and turned as well; with friction in the joints."""
    robot = dynamics.load("talos")
    soles = held(robot, robot.q0, FEET["talos"][:1], "surface")
    return PhasedDynamics(robot, 0.02, Phase(soles, 1, held=True), damping=True)


def tree(rng):
    """A random tree of all kinds of joints with springs, held by its tip."""
    robot = sprung(random_tree(7, bodies=6), rng)
    robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, pin.SE3.Random(), pin.OP_FRAME))
    return PhasedDynamics(robot, 0.02, Phase(held(robot, robot.q0, ["tip"]), 1, held=True))


@pytest.fixture(params=[quadruped, biped, tree], ids=lambda make: make.__name__)
def case(request, rng):
    """A system, a state near its targets and a control for every knot."""
    system = request.param(rng)
    robot, N = system.robot, system.knots
    near = [pin.integrate(robot.model, robot.q0, 0.01 * rng.normal(size=robot.nv)) for _ in range(N)]
    X = np.hstack([near, 0.5 * rng.normal(size=(N, robot.nv))])
    return system, X, 5.0 * rng.normal(size=(N, system.nu))


def test_steps_end_where_contacts_are_held_by_forces_that_act_there(case):
    system, X, U = case
    robot = system.robot
    model, data, nq = robot.model, robot.model.createData(), robot.nq
    for t, (x, u) in enumerate(zip(X, U, strict=True)):
        after, q, v = system.step(x, u, t), x[:nq], x[nq:]
        contacts = system.phase_of(t).contacts
        pin.framesForwardKinematics(model, data, after[:nq])
        for contact in contacts:
            there = data.oMf[robot.frame_id(contact.frame)]
            if contact.kind == "point":
                np.testing.assert_allclose(there.translation, contact.target, atol=1e-13)
            else:
                assert np.abs(pin.log6(contact.target.actInv(there)).vector).max() < 1e-13
        np.testing.assert_allclose(after[:nq], pin.integrate(model, q, system.dt * after[nq:]), atol=1e-13)
        pushed = pin.rnea(model, data, q, v, (after[nq:] - v) / system.dt)
        pushed -= system.actuation @ u + passive(system, q, v)
        pin.computeJointJacobians(model, data, q)
        rows = []
        for contact in contacts:
            axes = pin.LOCAL_WORLD_ALIGNED if contact.kind == "point" else pin.LOCAL
            rows.append(pin.computeFrameJacobian(model, data, q, robot.frame_id(contact.frame), axes)[: contact.size])
        J = np.vstack(rows)
        f = np.linalg.lstsq(J.T, pushed)[0]
        np.testing.assert_allclose(J.T @ f, pushed, atol=1e-8 * np.abs(pushed).max())


def test_derivatives_are_differences_of_steps(case):
    assert_first_order(*case)


def test_hessians_are_second_differences_of_steps(case, rng):
    assert_second_order(*case, 1e-3, rng)


def test_blocks_are_hessians_in_the_next_state_and_controls(case, rng):
    assert_blocks_are_hessians(*case, rng)


def test_no_order_reads_what_other_modes_left_in_memory(case):
    assert_memory_does_not_matter(*case)


def test_a_step_from_where_a_contact_cannot_be_reached_diverges():
    robot = dynamics.load("anymal")
    far = Contact("LF_FOOT", target=[50.0, 0.0, 0.0])
    fixed = PhasedDynamics(robot, 0.01, Phase([far, Contact("RF_FOOT", target=[-50.0, 0.0, 0.0])], 1, held=True))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    assert np.isnan(fixed.step(x, np.zeros(fixed.nu))).all()


def test_a_start_too_far_from_what_is_held_for_a_step_is_told_what_brings_it_there():
    robot = dynamics.load("ur5")
    system = PhasedDynamics(robot, 0.02, Phase(held(robot, robot.q0, ["tool0"]), 1, held=True))
    turned, u = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(6)
    x0 = np.concatenate([robot.q0, np.zeros(6)])
    assert np.isfinite(system.step(x0 + 1e-3 * turned, u)).all()
    assert np.isnan(system.step(x0 + 2.0 * turned, u)).all()
    said = r"it is out of reach of a step \(the furthest from there now is tool0, 1\.\S+ mm\): start closer, or bring"
    with pytest.raises(ModelError, match=said):
        system.linearize(x0 + 2.0 * turned, u)
    assert str(system.undefined(x0)).endswith("it is out of reach of a step (all are there now)")


def spider(rng, points):
    """A floating body with four legs of a spherical joint and two of any kind, held by so many points, in 11 knots."""
    model = pin.Model()
    model.name = "spider"
    base = model.addJoint(0, pin.JointModelFreeFlyer(), random_placement(rng), "base")
    model.appendBodyToJoint(base, random_inertia(rng), pin.SE3.Identity())
    for leg in range(4):
        last = base
        for i, joint in enumerate([pin.JointModelSpherical(), random_joint(rng), random_joint(rng)]):
            last = model.addJoint(last, joint, random_placement(rng), f"leg {leg}, {i}")
            model.appendBodyToJoint(last, random_inertia(rng), pin.SE3.Identity())
        model.addFrame(pin.Frame(f"foot {leg}", last, 0, random_placement(rng), pin.OP_FRAME))
    robot, feet = sprung(dynamics.load(model), rng), [f"foot {leg}" for leg in range(points)]
    phase = Phase(held(robot, robot.q0, feet), 11, held=True)
    return PhasedDynamics(robot, 0.01, phase, rng.normal(size=(robot.nv, 5)), damping=True)


def near(system, rng):
    """States near where contacts are held, and controls."""
    robot, N = system.robot, system.knots
    around = [pin.integrate(robot.model, robot.q0, 0.01 * rng.normal(size=robot.nv)) for _ in range(N)]
    return np.hstack([around, 0.5 * rng.normal(size=(N, robot.nv))]), rng.normal(size=(N, system.nu))


def first_order(system, X, U):
    """A, B and records of all knots together, and of each by itself; which of them have a motion."""
    given, alone = (
        Expansion(np.empty((N, n, n)), np.empty((N, n, system.nu)), np.zeros((N, system.record_size)))
        for N, n in [(len(U), system.n)] * 2
    )
    system.expand(X, U, given)
    for k in range(len(U)):
        system.expand(X[k : k + 1], U[k : k + 1], Expansion(*(part[k : k + 1] for part in alone)), k)
    return given, alone, np.isfinite(given.A).all(axis=(1, 2))


def feet_and_hand(rng):
    """Talos on both soles and one hand, that sees a point."""
    robot = dynamics.load("talos")
    contacts = held(robot, robot.q0, FEET["talos"][:2], "surface") + held(robot, robot.q0, FEET["talos"][2:3])
    return PhasedDynamics(robot, 0.01, Phase(contacts, 11, held=True))


def pulled_soles(rng):
    """Talos on both soles, pulled to their poses and not held there."""
    robot = dynamics.load("talos")
    soles = [replace(sole, gains=(50.0, 10.0)) for sole in held(robot, robot.q0, FEET["talos"][:2], "surface")]
    return PhasedDynamics(robot, 0.01, Phase(soles, 11))


MADE = {f"{count} points": lambda rng, count=count: spider(rng, count) for count in (1, 2, 3, 4)}


@pytest.mark.parametrize("make", [*MADE.values(), feet_and_hand, pulled_soles], ids=[*MADE, "soles", "pulled"])
def test_eight_knots_at_once_are_each_alone(make, rng):
    system = make(rng)
    given, alone, sound = first_order(system, *near(system, rng))
    assert sound.all()
    for mine, truth in zip(given, alone, strict=True):
        np.testing.assert_array_equal(mine, truth)


def test_soles_that_turned_far_are_done_in_lanes_too(rng):
    robot = dynamics.load("talos")
    soles = [replace(sole, gains=(50.0, 10.0)) for sole in held(robot, robot.q0, FEET["talos"][:1], "surface")]
    system = PhasedDynamics(robot, 0.02, Phase(soles, 11))
    X, U = near(system, rng)
    for k, angle in ((1, 2.2), (3, 3.12), (5, -3.09), (8, -3.14)):
        X[k, : robot.nq] = robot.q0
        X[k, 3:7] = pin.Quaternion(pin.exp3(np.array([0.0, angle, 0.0]))).coeffs()
    given, alone, sound = first_order(system, X, U)
    assert sound.all()
    for mine, truth in zip(given, alone, strict=True):
        np.testing.assert_array_equal(mine, truth)
    for k in (1, 3, 5):  # the eighth is too near to a half turn for differences
        after, n = system.step(X[k], U[k]), system.n

        def moved(z, k=k, after=after, n=n):
            return system.difference(after, system.step(system.integrate(X[k], z[:n]), U[k] + z[n:]))

        truth = np.stack([fourth_order(lambda s, e=e: moved(s * e)) for e in np.eye(n + system.nu)], axis=-1)
        assert relative_error(np.hstack([given.A[k], given.B[k]]), truth) < 1e-6


@pytest.mark.parametrize("points", [1, 2, 3, 4])
def test_contractions_of_eight_knots_at_once_are_each_alone(points, rng):
    system = spider(rng, points)
    X, U = near(system, rng)
    given, alone, _ = first_order(system, X, U)
    N, nz, g = len(given.A), system.n + system.nu, int(system._layout.g)
    weight, on_forces = rng.normal(size=(N, system.n)), rng.normal(size=(N, 3 * points))
    found = np.empty((2, N, nz, nz))
    for out in (given, alone):
        system.expand_second(X, U, out)
        out.record[1:, g : g + 3 * points] = on_forces[1:]
    system.contract(given.record, weight, found[0])
    address, context, _alive = system.contraction()
    contract_rows(address, context, alone.record, weight, found[1])
    for mine, truth in zip(*found, strict=True):
        assert relative_error(mine, truth) < 1e-9


@pytest.mark.parametrize("far", [0.3, 1e3])
def test_knots_that_reach_no_target_take_nothing_from_the_others(far, rng):
    system = spider(rng, 1)
    X, U = near(system, rng)
    before = first_order(system, X, U)[0]
    X[3:8, :3] += far * rng.normal(size=(5, 3))
    X[9] = np.nan
    given, alone, sound = first_order(system, X, U)
    assert sound[[0, 1, 2, 8, 10]].all()
    assert np.count_nonzero(~sound) > 1
    for mine, truth, other in zip(given, alone, before, strict=True):
        np.testing.assert_array_equal(mine, truth)
        np.testing.assert_array_equal(mine[[0, 1, 2, 8, 10]], other[[0, 1, 2, 8, 10]])


def test_points_of_one_body_that_are_held_twice_end_where_they_are_held(rng):
    robot = dynamics.load("anymal")
    points = held(robot, robot.q0, points_of_a_shank(robot, rng))
    system = PhasedDynamics(robot, 0.01, Phase(points, 5, held=True))
    X, U = near(system, rng)
    given, alone, _ = first_order(system, X, U)
    for mine, truth in zip(given, alone, strict=True):
        np.testing.assert_array_equal(mine, truth)
    data = robot.model.createData()
    for after in system.step(X, U):
        pin.framesForwardKinematics(robot.model, data, after[: robot.nq])
        for point in points:
            np.testing.assert_allclose(data.oMf[robot.frame_id(point.frame)].translation, point.target, atol=1e-9)


def one_by_one(system, X, U, steps, gains, alphas, gaps, limit):
    """States, controls and forces of rollouts by accelerations of the first order, which inverts dense matrices."""
    (N, nu), nx, nv, most = U.shape, system.nx, system.robot.nv, system.notes_size
    Xs, Us, notes = np.empty((len(alphas), N + 1, nx)), np.empty((len(alphas), N, nu)), np.empty((len(alphas), N, most))
    for alpha, Xn, Un, forces in zip(alphas, Xs, Us, notes, strict=True):
        Xn[0] = X[0]
        for t in range(N):
            Un[t] = np.clip(U[t] + alpha * steps[t] + gains[t] @ system.difference(X[t], Xn[t]), -limit, limit)
            sizes = (2 * nv, 2 * nv), (2 * nv, nu), (system.record_size,)
            out = Expansion(*(np.empty((1, *size)) for size in sizes))
            system.expand(Xn[t : t + 1], Un[t : t + 1], out, t)
            a, h = out.record[0, nx : nx + nv], system.dt if np.isfinite(out.A).all() else np.nan
            forces[t] = out.record[0, nx + nv + 1 :][:most]
            v = Xn[t, system.robot.nq :] + h * a
            Xn[t + 1] = np.concatenate([pin.integrate(system.robot.model, Xn[t, : system.robot.nq], h * v), v])
            Xn[t + 1] = system.integrate(Xn[t + 1], (alpha - 1.0) * gaps[t])
    return Xs, Us, notes


def rollouts(system, X, U, steps, gains, alphas, most):
    """States, controls, at most so large, and forces of rollouts of four step lengths at once, and one by one."""
    N, n, limit = len(U), system.n, np.full(system.nu, most)
    gaps = 1e-4 * np.cos(np.arange(N * n)).reshape(N, n)
    together = system.track_noting(X, U, steps, gains, np.array(alphas), gaps, -limit, limit)
    return together, one_by_one(system, X, U, steps, gains, alphas, gaps, limit)


@pytest.mark.parametrize("make", [*MADE.values(), feet_and_hand, pulled_soles], ids=[*MADE, "soles", "pulled"])
def test_rollouts_of_four_lengths_are_those_of_each(make, rng):
    system = make(rng)
    assert system.lanes == 4
    X, U = near(system, rng)
    steps, gains = rng.normal(size=U.shape), 0.01 * rng.normal(size=(*U.shape, system.n))
    lanes, alone = rollouts(system, np.vstack([X, X[:1]]), U, steps, gains, (1.0, 0.6, 0.3, 0.1, 0.0), 1.0)
    for mine, truth in zip(lanes, alone, strict=True):
        assert relative_error(mine, truth) < 1e-9


def test_rollouts_that_newtons_method_does_not_solve_end_there_and_disturb_no_other(rng):
    system = spider(rng, 2)
    X, U = near(system, rng)
    steps, gains = rng.normal(size=U.shape), np.zeros((*U.shape, system.n))
    steps[4:] *= 1e5
    X = np.vstack([X, X[:1]])
    for alphas in (1.0, 0.01, 0.0, 1e-3, 3.0), (0.0, 1.0):
        lanes, alone = rollouts(system, X, U, steps, gains, alphas, np.inf)
        ended = np.isnan(lanes[0]).any(axis=2)
        assert 0 < ended.sum() < ended.size
        np.testing.assert_array_equal(ended, np.isnan(alone[0]).any(axis=2))
        steady = alphas.index(0.0)
        assert relative_error(lanes[0][steady], alone[0][steady]) < 1e-9


def test_a_rollout_that_comes_as_no_number_does_not_disturb_the_others(rng):
    system = spider(rng, 2)
    X, U = near(system, rng)
    steps, gains = np.zeros(U.shape), np.zeros((*U.shape, system.n))
    steps[6] = np.inf
    lanes, alone = rollouts(system, np.vstack([X, X[:1]]), U, steps, gains, (1.0, 0.5), np.inf)
    assert np.isnan(lanes[0][:, 7:]).all()
    assert np.isfinite(lanes[0][:, :7]).all()
    assert relative_error(lanes[0][:, :7], alone[0][:, :7]) < 1e-9


def test_gains_of_what_is_held_or_struck_play_no_part(rng):
    system = feet_and_hand(rng)
    phase = system.phases[0]
    pulled = [replace(contact, gains=(50.0, 10.0)) for contact in phase.contacts]
    X, U = near(system, rng)
    for struck in (False, True):
        plain, given = (
            PhasedDynamics(system.robot, 0.01, Phase(contacts, len(U) - struck, struck, held=True))
            for contacts in (phase.contacts, pulled)
        )
        assert given.lanes == plain.lanes == 4
        np.testing.assert_array_equal(given.step(X, U), plain.step(X, U))


def test_soles_are_brought_back_from_turns_beyond_a_right_angle(rng):
    robot = chain_of("free-flyer", "revolute", "revolute")
    robot.model.addFrame(pin.Frame("sole", robot.model.njoints - 1, 0, random_placement(rng), pin.OP_FRAME))
    sole, angles = held(robot, robot.q0, ["sole"], "surface"), np.array([0.1, 1.0, 2.0, -2.2, 2.4])
    system = PhasedDynamics(robot, 0.01, Phase(sole, len(angles), held=True))
    X = np.tile(np.append(robot.q0, np.zeros(robot.nv)), (len(angles), 1))
    X[:, 3:7] = [pin.Quaternion(pin.exp3(np.array([0.0, 0.0, angle]))).coeffs() for angle in angles]
    for t, after in enumerate(system.step(X, np.zeros((len(angles), system.nu)))):
        data = robot.model.createData()
        pin.framesForwardKinematics(robot.model, data, after[: robot.nq])
        there = data.oMf[robot.frame_id("sole")]
        assert np.abs(pin.log6(sole[0].target.actInv(there)).vector).max() < 1e-12, angles[t]


def test_what_is_held_needs_a_place():
    with pytest.raises(ProblemError, match=r"target of the contact at .foot.: expected where it is held, got None"):
        Phase(Contact("foot"), 1, held=True)
