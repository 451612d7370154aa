"""Motion under contacts and impacts, against Pinocchio's and differences of its analytic first derivatives."""

from fractions import Fraction
from functools import cache

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET, Constrained, points_of_a_body, some_contacts
from oracles import directions, fourth_order, random_state, random_tree, relative_error, symmetric

import dynamics
from dynamics import Contact
from dynamics.contacts.contact import compile_contacts

TREES = (0, 1, 3, 4, 5, 7)
"""Random trees whose last body can be held entirely, by either kind of contact."""
CASES = [
    (robot, kind, count)
    for robot, kind in (("hyq", "point"), ("anymal", "point"), ("talos", "point"), ("talos", "surface"))
    for count in (1, 2, 4)
] + [("hyq", "surface", 1), ("anymal", "surface", 1)]
CASES += [(seed, kind, 1) for seed in TREES for kind in ("point", "surface")]
GAINS = ((0.0, 0.0), (0.0, 50.0), (30.0, 7.0))
RESTITUTIONS = (0.0, 0.3, 1.0)


named = cache(dynamics.load)


class Case:
    """A robot and contacts of one kind at some of its frames; other gains and axes for every number."""

    def __init__(self, key, kind, count, number=0):
        self.rng = np.random.default_rng([sum(map(ord, f"{key}{kind}")), count, number])
        self.robot = named(key) if isinstance(key, str) else random_tree(key, bodies=6)
        frames = FEET.get(key, ())
        if not frames:
            tip = pin.Frame("tip", self.robot.model.njoints - 1, 0, pin.SE3.Random(), pin.OP_FRAME)
            self.robot.model.addFrame(tip)
            frames = ("tip",)
        axes = ("local", "local-world-aligned")[number % 2]
        self.contacts = some_contacts(frames[:count], kind, self.rng, GAINS[number % 3], axes)
        self.oracle = Constrained(self.robot, self.contacts)
        self.nc = sum(contact.size for contact in self.contacts)

    def state(self, near=False):
        """Any; or near its usual posture, far from straight legs, where differences of 1e-3 are small ones."""
        q, v, tau = random_state(self.robot, self.rng)
        if near:
            q = pin.integrate(self.robot.model, self.robot.q0, 0.3 * self.rng.normal(size=self.robot.nv))
        return q, v, 10.0 * tau


def blocks(nv, derivatives):
    """Derivatives of both unknowns stacked, as the oracle has them."""
    return np.array([np.concatenate(pair, axis=-2) for pair in zip(*derivatives, strict=True)])


@pytest.mark.parametrize(("key", "kind", "count"), CASES)
def test_motion_and_first_derivatives_are_those_of_pinocchio(key, kind, count):
    for number in range(6):
        case = Case(key, kind, count, number)
        states = [case.state() for _ in range(20 if number == 0 else 3)]
        q, v, tau = map(np.array, zip(*states, strict=True))
        motion = np.hstack(dynamics.contact_dynamics(case.robot, q, v, tau, case.contacts))
        first = blocks(case.robot.nv, dynamics.contact_dynamics_derivatives(case.robot, q, v, tau, case.contacts))
        for t, state in enumerate(states):
            assert relative_error(motion[t], case.oracle.motion(*state)) < 1e-9
            for mine, truth in zip(first[:, t], case.oracle.derivatives(*state), strict=True):
                assert relative_error(mine, truth) < 1e-9


@pytest.mark.parametrize(("key", "kind", "count"), CASES)
def test_impacts_and_first_derivatives_are_those_of_pinocchio(key, kind, count):
    for number, e in enumerate(RESTITUTIONS):
        case = Case(key, kind, count, number)
        states = [case.state()[:2] for _ in range(20 if number == 0 else 3)]
        q, v = map(np.array, zip(*states, strict=True))
        after = np.hstack(dynamics.impact_dynamics(case.robot, q, v, case.contacts, e))
        first = blocks(case.robot.nv, dynamics.impact_dynamics_derivatives(case.robot, q, v, case.contacts, e))
        for t, state in enumerate(states):
            assert relative_error(after[t], case.oracle.impact(*state, e)) < 1e-9
            for mine, truth in zip(first[:, t], case.oracle.impact_derivatives(*state, e), strict=True):
                assert relative_error(mine, truth) < 1e-9


def differenced(model, q, v, first, along):
    """∂/∂q and ∂/∂v of ``first(q, v)`` along directions (nv, n), the last index."""
    by_q = [fourth_order(lambda t, e=e: first(pin.integrate(model, q, t * e), v)) for e in along.T]
    by_v = [fourth_order(lambda t, e=e: first(q, v + t * e)) for e in along.T]
    return np.stack(by_q, axis=-1), np.stack(by_v, axis=-1)


@pytest.mark.parametrize(("key", "kind", "count"), CASES)
def test_second_derivatives_of_motion_are_differences_of_those_of_pinocchio(key, kind, count):
    for number in range(2, 4):
        case = Case(key, kind, count, number)
        robot, contacts, nv = case.robot, case.contacts, case.robot.nv
        q, v, tau = case.state(near=True)
        along = directions(nv, case.rng)
        by_q, by_v = differenced(robot.model, q, v, lambda q, v: case.oracle.derivatives(q, v, tau), along)  # noqa: B023
        tensors = dynamics.contact_dynamics_second_derivatives(robot, q, v, tau, contacts)
        stacked = [np.concatenate(pair) for pair in zip(*tensors, strict=True)]
        for mine, truth in zip(stacked, (by_q[0], by_v[1], by_q[1], by_q[2]), strict=True):
            assert relative_error(mine @ along, truth) < 1e-7
        assert np.abs(by_v[2]).max() < 1e-7 * np.abs(by_q[2]).max()  # nothing is forgotten
        w, wf = case.rng.normal(size=nv), case.rng.normal(size=case.nc)
        hessian = dynamics.contact_dynamics_hessian(robot, q, v, tau, contacts, w, wf)
        rows = (hessian.qq, hessian.vv, hessian.qv.T, hessian.qtau.T)
        for mine, T in zip(rows, stacked, strict=True):
            assert relative_error(mine, np.einsum("i,ijk->jk", np.concatenate([w, wf]), T)) < 1e-10


@pytest.mark.parametrize(("key", "kind", "count"), CASES)
def test_second_derivatives_of_impacts_are_differences_of_those_of_pinocchio(key, kind, count):
    for number, e in ((0, 0.0), (1, 0.4)):
        case = Case(key, kind, count, number)
        robot, contacts, nv = case.robot, case.contacts, case.robot.nv
        q, v, _ = case.state(near=True)
        along = directions(nv, case.rng)
        first = lambda q, v: case.oracle.impact_derivatives(q, v, e)  # noqa: B023, E731
        by_q, by_v = differenced(robot.model, q, v, first, along)
        tensors = dynamics.impact_dynamics_second_derivatives(robot, q, v, contacts, e)
        stacked = [np.concatenate(pair) for pair in zip(*tensors, strict=True)]
        for mine, truth in zip(stacked, by_q, strict=True):
            assert relative_error(mine @ along, truth) < 1e-7
        assert np.abs(by_v[1]).max() < 1e-7 * np.abs(by_q[1]).max()
        w, wf = case.rng.normal(size=nv), case.rng.normal(size=case.nc)
        hessian = dynamics.impact_dynamics_hessian(robot, q, v, contacts, w, wf, e)
        for mine, T in zip((hessian.qq, hessian.qv.T), stacked, strict=True):
            assert relative_error(mine, np.einsum("i,ijk->jk", np.concatenate([w, wf]), T)) < 1e-10


def test_symmetric_hessians_are_those_along_lines(rng):
    """d²/dt² of weights on (a, f) at q ⊕ t δ."""
    case = Case("anymal", "point", 2, 2)
    (q, v, tau), robot = case.state(), case.robot
    w, wf, d = rng.normal(size=18), rng.normal(size=6), rng.normal(size=18)
    H = dynamics.contact_dynamics_hessian(robot, q, v, tau, case.contacts, w, wf, symmetric=True).qq
    assert np.array_equal(H, H.T)
    weights = np.concatenate([w, wf])

    def slope(t):
        moved = pin.integrate(robot.model, q, t * d)  # on a line q ⊕ t δ, δ is the velocity in the body's axes
        return weights @ case.oracle.derivatives(moved, v, tau)[0] @ d

    assert abs(d @ H @ d - fourth_order(slope)) < 1e-8 * np.abs(d) @ np.abs(H) @ np.abs(d)


def test_no_contact_is_free_motion(rng):
    robot = dynamics.load("hyq")
    q, v, tau = random_state(robot, rng)
    a, f = dynamics.contact_dynamics(robot, q, v, tau, [])
    assert relative_error(a, dynamics.forward_dynamics(robot, q, v, tau)) < 1e-12
    assert f.shape == (0,)
    first = dynamics.contact_dynamics_derivatives(robot, q, v, tau, [])
    for mine, truth in zip(first.a, dynamics.forward_dynamics_derivatives(robot, q, v, tau), strict=True):
        assert relative_error(mine, truth) < 1e-12
    after = dynamics.impact_dynamics(robot, q, v, [])
    np.testing.assert_array_equal(after.v, v)


def test_external_wrenches_act_beside_contacts(rng):
    robot, contacts = dynamics.load("hyq"), [Contact("lf_foot"), Contact("rh_foot")]
    q, v, tau = random_state(robot, rng)
    fext = rng.normal(size=(robot.model.njoints, 6))
    a, f = dynamics.contact_dynamics(robot, q, v, tau, contacts, fext)
    felt = tau - dynamics.inverse_dynamics(robot, q, v, 0 * v, fext) + dynamics.inverse_dynamics(robot, q, v, 0 * v)
    alone = dynamics.contact_dynamics(robot, q, v, felt, contacts)
    assert relative_error(a, alone.a) < 1e-10
    assert relative_error(f, alone.f) < 1e-10


def test_an_elastic_impact_keeps_energy_and_a_plastic_one_stops_the_foot(rng):
    robot, contact = dynamics.load("anymal"), Contact("LF_FOOT")
    q, v, _ = random_state(robot, rng)
    M = dynamics.mass_matrix(robot, q)
    bounced, stopped = (dynamics.impact_dynamics(robot, q, v, contact, e) for e in (1.0, 0.0))
    assert abs(bounced.v @ M @ bounced.v - v @ M @ v) < 1e-10 * (v @ M @ v)
    assert stopped.v @ M @ stopped.v < v @ M @ v
    velocity = dynamics.frame_velocity(robot, q, stopped.v, "LF_FOOT", "local-world-aligned")
    assert np.abs(velocity[:3]).max() < 1e-12


def test_redundant_contacts_move_as_the_independent_ones_among_them_do(rng):
    """Three points of one body hold it as a surface does; a fourth point shares the forces only."""
    robot = dynamics.load("talos")
    joint = robot.model.frames[robot.frame_id("left_sole_link")].parentJoint
    corners = [np.array([x, y, -0.1]) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]
    for i, corner in enumerate(corners):
        robot.model.addFrame(pin.Frame(f"corner{i}", joint, 0, pin.SE3(np.eye(3), corner), pin.OP_FRAME))
    q, _, tau = random_state(robot, rng)
    v = np.zeros(robot.nv)
    held = dynamics.contact_dynamics(robot, q, v, tau, Contact("left_sole_link", "surface"))
    points = [Contact(f"corner{i}") for i in range(4)]
    spread = dynamics.contact_dynamics(robot, q, v, tau, points)
    assert relative_error(spread.a, held.a) < 1e-5
    assert np.isfinite(spread.f).all()
    np.testing.assert_allclose(spread.f.reshape(4, 3).sum(axis=0), held.f[:3], rtol=1e-4, atol=1e-2)
    exact = dynamics.contact_dynamics_derivatives(robot, q, v, tau, points)
    for i, mine in enumerate(exact.a):
        truth = dynamics.contact_dynamics_derivatives(robot, q, v, tau, Contact("left_sole_link", "surface")).a[i]
        assert relative_error(mine, truth) < (1e-4 if i != 1 else np.inf)  # off v = 0 a surface holds otherwise
    d = rng.normal(size=robot.nv)
    slope = fourth_order(
        lambda t: dynamics.contact_dynamics(robot, pin.integrate(robot.model, q, t * d), v, tau, points).f, 1e-2
    )
    assert relative_error(exact.f.dq @ d, slope) < 1e-4
    twice = [Contact("left_sole_link", "surface"), Contact("leg_left_sole_fix_joint", "surface")]
    assert relative_error(dynamics.contact_dynamics(robot, q, v, tau, twice).a, held.a) < 1e-5


@pytest.mark.parametrize("key", ["anymal", *TREES[:4]])
@pytest.mark.parametrize("allowed", [True, False])
def test_redundant_contacts_keep_their_digits_to_second_order(key, allowed, rng):
    """Three points of one body, against Pinocchio with the same ε; its ∂f/∂q leave ε out: its forces are differenced.

    Rounding of single samples and of batches differs: that they agree shows how much of it is left.
    """
    robot = dynamics.load(key) if isinstance(key, str) else random_tree(key, bodies=6)
    foot = robot.model.frames[robot.frame_id("LF_FOOT")].parentJoint if key == "anymal" else robot.model.njoints - 1
    contacts = [Contact(name) for name in points_of_a_body(robot, foot, rng)]
    (q, v, tau), nv = random_state(robot, rng), robot.nv
    if allowed:
        data = robot.model.createData()
        frames = [robot.frame_id(contact.frame) for contact in contacts]
        J = np.concatenate([pin.computeFrameJacobian(robot.model, data, q, frame)[:3] for frame in frames])
        v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
    oracle = Constrained(robot, contacts)
    oracle.settings = pin.ProximalSettings(1e-14, compile_contacts(robot, contacts).softness[0], 1)
    truth = oracle.motion(q, v, tau)
    mine = dynamics.contact_dynamics(robot, q, v, tau, contacts)
    assert relative_error(mine.a, truth[:nv]) < 1e-9
    assert relative_error(mine.f, truth[nv:]) < 1e-9
    first = dynamics.contact_dynamics_derivatives(robot, q, v, tau, contacts)
    _, by_v, by_tau = oracle.derivatives(q, v, tau)
    for ours, theirs in ((first.a.dv, by_v[:nv]), (first.f.dv, by_v[nv:]), (first.f.dtau, by_tau[nv:])):
        assert relative_error(ours, theirs) < 1e-7
    d, weight = rng.normal(size=nv) / np.sqrt(nv), rng.normal(size=9)

    def moved(t):
        return pin.integrate(robot.model, q, t * d)

    slope = fourth_order(lambda t: oracle.motion(moved(t), v, tau), 2e-3)
    assert relative_error(first.f.dq @ d, slope[nv:]) < 1e-6
    second = dynamics.contact_dynamics_hessian(robot, q, v, tau, contacts, np.zeros(nv), weight)
    for block, of in ((second.qq, "dq"), (second.qv.T, "dv")):
        slope = fourth_order(
            lambda t, of=of: weight @ getattr(
                dynamics.contact_dynamics_derivatives(robot, moved(t), v, tau, contacts).f, of), 2e-3)  # fmt: skip
        assert relative_error(block @ d, slope) < 1e-6
    many = [np.tile(x, (9, 1)) for x in (q, v, tau)]
    batch = dynamics.contact_dynamics_derivatives(robot, *many, contacts)
    assert relative_error(batch.f.dq[0], first.f.dq) < 3e-8
    weights = np.zeros((9, nv)), np.tile(weight, (9, 1))
    for one, of_nine in zip(second, dynamics.contact_dynamics_hessian(robot, *many, contacts, *weights), strict=True):
        assert relative_error(of_nine[0], one) < 3e-8


def solved_exactly(K, B):
    """K⁻¹ B by rational numbers."""
    rows = [[Fraction(x) for x in row] for row in np.hstack([K, B]).tolist()]
    for i in range(len(rows)):
        rows[i:] = sorted(rows[i:], key=lambda row: -abs(row[i]))
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    return np.array([[float(x) for x in row[len(rows) :]] for row in rows])


@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-4])
def test_nearly_redundant_contacts_keep_their_digits(apart, rng):
    """Two points that almost coincide, of the last two bodies: rational numbers solve what Pinocchio's parts say."""
    model, place = pin.Model(), pin.SE3(np.eye(3), 0.2 * rng.normal(size=3))
    for i in range(7):
        joint = (pin.JointModelRZ, pin.JointModelRY, pin.JointModelRX)[i % 3]()
        model.addJoint(i, joint, pin.SE3(pin.exp3(rng.normal(size=3)), 0.3 * rng.normal(size=3)), f"joint{i}")
        model.appendBodyToJoint(i + 1, pin.Inertia.FromBox(1.0, 0.1, 0.2, 0.3), pin.SE3.Random())
    other = model.jointPlacements[7] * place * pin.SE3(np.eye(3), apart * rng.normal(size=3))
    model.addFrame(pin.Frame("one", 7, 0, place, pin.OP_FRAME))
    model.addFrame(pin.Frame("other", 6, 0, other, pin.OP_FRAME))
    robot, contacts = dynamics.load(model), [Contact("one"), Contact("other")]
    q, v, tau = np.append(rng.normal(size=6), 0.0), np.zeros(7), rng.normal(size=7)
    data, frames = model.createData(), [model.frames[robot.frame_id(one.frame)] for one in contacts]
    pin.computeForwardKinematicsDerivatives(model, data, q, v, v)
    pin.updateFramePlacements(model, data)
    R = [data.oMf[robot.frame_id(one.frame)].rotation for one in contacts]
    local = [pin.getFrameJacobian(model, data, robot.frame_id(one.frame), pin.LOCAL) for one in contacts]
    J = np.vstack([turn @ own[:3] for turn, own in zip(R, local, strict=True)])
    K = np.block([[symmetric(pin.crba(model, model.createData(), q)), -J.T], [J, np.zeros((6, 6))]])
    known = np.append(tau - pin.rnea(model, model.createData(), q, v, v), np.zeros(6))
    a, f = np.split(solved_exactly(K, known[:, None])[:, 0], [7])
    pulls, turned = pin.StdVec_Force([pin.Force.Zero() for _ in range(8)]), np.zeros((7, 7))
    for frame, turn, own, force in zip(frames, R, local, f.reshape(2, 3), strict=True):
        wrench = pin.Force(turn.T @ force, np.zeros(3))
        pulls[frame.parentJoint] += frame.placement.act(wrench)
        turned += own[:3].T @ pin.skew(wrench.linear) @ own[3:]  # forces stay in the world's axes
    pin.computeRNEADerivatives(model, data, q, v, a, pulls)
    by_q = [data.dtau_dq - turned]
    pin.computeForwardKinematicsDerivatives(model, data, q, v, a)
    for frame, turn in zip(frames, R, strict=True):
        where = frame.parentJoint, frame.placement, pin.LOCAL
        by_q.append(turn @ pin.getPointClassicAccelerationDerivatives(model, data, *where)[1])
    truth = solved_exactly(K, np.hstack([-np.vstack(by_q), np.eye(13, 7)]))
    mine = dynamics.contact_dynamics(robot, q, v, tau, contacts)
    first = dynamics.contact_dynamics_derivatives(robot, q, v, tau, contacts)
    for ours, theirs in (
        (mine.a, a), (mine.f, f), (first.a.dq, truth[:7, :7]), (first.f.dq, truth[7:, :7]),
        (first.a.dtau, truth[:7, 7:]), (first.f.dtau, truth[7:, 7:]),
    ):  # fmt: skip
        assert relative_error(ours, theirs) < 2e-9


@pytest.mark.parametrize("kind", ["point", "surface"])
@pytest.mark.parametrize(("mass", "length"), [(1e-9, 1e-4), (1e-3, 1e-2), (1.0, 1.0), (1e4, 1.0), (1e6, 1e2)])
def test_redundant_contacts_hold_the_lightest_and_the_heaviest_alike(mass, length, kind):
    """A box on its corners, which give by millionths of what gravity does."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "box")
    model.appendBodyToJoint(joint, pin.Inertia.FromBox(mass, length, 0.6 * length, 0.3 * length), pin.SE3.Identity())
    for i, (x, y) in enumerate([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]):
        corner = length * np.array([0.5 * x, 0.3 * y, -0.15])
        model.addFrame(pin.Frame(f"corner{i}", joint, 0, pin.SE3(np.eye(3), corner), pin.OP_FRAME))
    robot = dynamics.load(model)
    contacts = [Contact(f"corner{i}", kind) for i in range(4)]
    a, f = dynamics.contact_dynamics(robot, robot.q0, np.zeros(6), np.zeros(6), contacts)
    for contact in contacts:
        J = contact.jacobian(robot, robot.q0)
        assert np.abs(J[:3] @ a).max() < 1e-5 * 9.81
        assert np.abs(J[3:] @ a).max(initial=0.0) < 1e-5 * 9.81 / length
    assert f.reshape(4, -1)[:, :3].sum(axis=0) == pytest.approx([0.0, 0.0, 9.81 * mass], rel=1e-5, abs=1e-5 * mass)


@pytest.mark.parametrize("key", TREES[:4])
def test_impacts_of_redundant_contacts_keep_their_digits_to_second_order(key, rng):
    robot = random_tree(key, bodies=6)
    contacts = [Contact(name) for name in points_of_a_body(robot, robot.model.njoints - 1, rng)]
    (q, v, _), nv = random_state(robot, rng), robot.nv
    oracle = Constrained(robot, contacts)
    oracle.settings = pin.ProximalSettings(1e-14, compile_contacts(robot, contacts).softness[0], 1)
    d, weight = rng.normal(size=nv) / np.sqrt(nv), rng.normal(size=9)

    def moved(t):
        return pin.integrate(robot.model, q, t * d)

    first = dynamics.impact_dynamics_derivatives(robot, q, v, contacts, 0.3)
    slope = fourth_order(lambda t: oracle.impact(moved(t), v, 0.3), 2e-3)
    assert relative_error(first[1].dq @ d, slope[nv:]) < 1e-6
    second = dynamics.impact_dynamics_hessian(robot, q, v, contacts, np.zeros(nv), weight, 0.3)
    slope = fourth_order(
        lambda t: weight @ dynamics.impact_dynamics_derivatives(robot, moved(t), v, contacts, 0.3)[1].dq, 2e-3
    )
    assert relative_error(second.qq @ d, slope) < 1e-6


def test_batches_are_their_samples(rng):
    robot, contacts = dynamics.load("anymal"), [Contact("LF_FOOT"), Contact("RH_FOOT", reference="local")]
    Q = np.stack([robot.random_configuration(rng) for _ in range(3)])
    V, T, W, F = (rng.normal(size=(3, n)) for n in (18, 18, 18, 6))
    many = dynamics.contact_dynamics_hessian(robot, Q, V, T, contacts, W, F)
    for t in range(3):
        one = dynamics.contact_dynamics_hessian(robot, Q[t], V[t], T[t], contacts, W[t], F[t])
        for a, b in zip(one, many, strict=True):
            np.testing.assert_array_equal(a, b[t])
