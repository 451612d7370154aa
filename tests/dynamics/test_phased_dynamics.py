"""Phases of contacts and impacts: steps against Pinocchio's dynamics, derivatives against differences of steps."""

import pickle
import re

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET, Constrained, points_of_a_shank, some_contacts
from oracles import contract_rows, fourth_order, passive, random_tree, relative_error, sprung
from recursion import dense_sweep
from step_oracles import (
    assert_blocks_are_hessians,
    assert_first_order,
    assert_memory_does_not_matter,
    assert_second_order,
)

import ddp
import dynamics
from ddp.derivatives import Derivatives
from ddp.errors import ModelError, ProblemError
from ddp.protocols import Dynamics
from ddp.sweeps.backward import Backward
from ddp.systems.structure import structure_of
from ddp.systems.system import Expansion, expanded
from dynamics import Contact, Phase, PhasedDynamics
from problems import gaits
from problems.contact_costs import friction_cone
from problems.costs import ControlCost


def trot(rng):
    """anymal on four feet, two, in the air, landing on three, on one with restitution, then on a foot and a thigh."""
    robot, feet = dynamics.load("anymal"), FEET["anymal"]
    held = some_contacts(feet, "point", rng, (0.0, 50.0))
    pulled = some_contacts(feet[:2], "point", rng, (20.0, 5.0), "local")
    kneeling = [held[0], Contact("RH_THIGH", gains=(0.0, 20.0))]
    return PhasedDynamics(
        robot, 0.01,
        [
            Phase(held, 3), Phase(pulled, 2), Phase((), 2), Phase(held[:3], 2, True),
            Phase(held[1:2], 1, held[:2], 0.4), Phase(kneeling, 1),
        ],
    )  # fmt: skip


def walk(rng):
    """talos on both soles, then one, then both again."""
    robot = dynamics.load("talos")
    soles = some_contacts(FEET["talos"][:2], "surface", rng, (10.0, 3.0), "local")
    return PhasedDynamics(robot, 0.02, [Phase(soles, 1), Phase(soles[:1], 1), Phase(soles, 1, True)], damping=True)


def swing(rng):
    """A random tree of all kinds of joints with springs, its tip held now and then."""
    robot = sprung(random_tree(7, bodies=6), rng)
    robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, pin.SE3.Identity(), pin.OP_FRAME))
    tip = Contact("tip")
    return PhasedDynamics(robot, 0.03, [Phase(tip, 1), Phase((), 1), Phase((), 0, tip, 0.7)])


SYSTEMS = {"trot": trot, "walk": walk, "swing": swing}


@pytest.fixture(params=SYSTEMS)
def case(request, rng):
    """A system, a state and a control for every knot."""
    system = SYSTEMS[request.param](rng)
    robot, N = system.robot, system.knots
    near = [pin.integrate(robot.model, robot.q0, 0.2 * rng.normal(size=robot.nv)) for _ in range(N)]
    X = np.hstack([near, 0.5 * rng.normal(size=(N, robot.nv))])
    return system, X, 5.0 * rng.normal(size=(N, system.nu))


def test_it_is_a_system_of_the_protocol(case):
    system, _, _ = case
    assert isinstance(system, Dynamics)
    assert system.durations.sum() == pytest.approx(system.dt * sum(phase.knots for phase in system.phases))


def test_steps_are_those_of_pinocchio(case):
    system, X, U = case
    robot, after = system.robot, system.step(X, U)
    for t, (x, u) in enumerate(zip(X, U, strict=True)):
        phase, q, v = system.phase_of(t), x[: robot.nq], x[robot.nq :]
        if system.is_impact(t):
            expected = Constrained(robot, phase.impact).impact(q, v, phase.restitution)[: robot.nv]
            np.testing.assert_array_equal(after[t, : robot.nq], q)
        else:
            tau = system.actuation @ u + passive(system, q, v)
            a = pin.aba(robot.model, robot.model.createData(), q, v, tau)
            if phase.contacts:
                a = Constrained(robot, phase.contacts).motion(q, v, tau)[: robot.nv]
            expected = v + system.dt * a
            moved = pin.integrate(robot.model, q, system.dt * expected)
            np.testing.assert_allclose(after[t, : robot.nq], moved, atol=1e-9)
        assert relative_error(after[t, robot.nq :], expected) < 1e-9


def test_derivatives_are_differences_of_steps(case):
    assert_first_order(*case)


def test_hessians_are_second_differences_of_steps(case, rng):
    assert_second_order(*case, 2e-3, rng)


def test_blocks_are_hessians_in_the_next_velocity_and_controls(case, rng):
    assert_blocks_are_hessians(*case, rng)


def test_hessians_of_lines_are_differences_of_linearizations(rng):
    """Off the diagonal too, where the map of steps of time is linear in q: prismatic and revolute joints alone."""
    robot = random_tree(6, bodies=6, joint=lambda rng: pin.JointModelRY() if rng.random() < 0.7 else pin.JointModelPZ())
    placement = pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
    robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, placement, pin.OP_FRAME))
    tip = Contact("tip", target=np.zeros(3), gains=(9.0, 6.0))
    system = PhasedDynamics(robot, 0.05, [Phase((), 1), Phase(tip, 1, True, 0.3)], some_joints(robot))
    n = system.n

    def slope(x, u, weight, t, e, s):
        return weight @ np.hstack(system.linearize(x + s * e[:n], u + s * e[n:], t))

    for t in range(2 if robot.nv < 3 else 3):
        x, u, weight = rng.normal(size=system.nx), rng.normal(size=system.nu), rng.normal(size=n)
        H = system.hessian(x, u, weight, t)
        columns = [
            fourth_order(lambda s, k=(x, u, weight, t, e): slope(*k, s), 5e-4) for e in np.eye(n + system.nu)
        ]
        assert relative_error(H, np.array(columns)) < 1e-8


def some_joints(robot):
    """Half of the joints driven."""
    return np.eye(robot.nv)[:, ::2]


def test_rows_that_are_not_bent_are_plain_whatever_steps_last(case, rng):
    system, X, U = case
    twice = system.lasting(system.phase_durations * rng.uniform(0.5, 2.0, size=len(system.phases)))
    for own in (system, twice, twice.from_knot(2)):
        (h, bent), m = own.semi_implicit, own.robot.nv
        plain = np.ones(m, dtype=bool)
        for first, size in bent:
            plain[first : first + size] = False
        assert plain.sum() >= m - 6 * len(bent) > 0
        for t in range(own.knots + 1):  # the last one is beyond its phases
            x, u = (part[t % own.knots] for part in (X, U))
            F = np.hstack(own.linearize(x, u, t))
            assert h[t] == own.step_durations(t + 1)[t]
            np.testing.assert_allclose(
                F[:m][plain], (h[t] * F[m:] + np.eye(m, F.shape[1]))[plain], rtol=0.0, atol=1e-13 * np.abs(F).max()
            )


def test_sweeps_of_a_cycle_from_later_knots_on_know_how_long_steps_are(case, rng):
    """Also in memory that an earlier horizon has left: what dense matrices give."""
    system, X, U = case
    N, nz = system.knots, system.n + system.nu
    cycle = system.lasting(system.phase_durations * np.linspace(0.5, 2.0, len(system.phases)))
    A, B, record = Expansion.of(cycle, N, np.zeros)
    H, lz = np.tile(np.eye(nz), (N + 1, 1, 1)), rng.normal(size=(N + 1, nz))
    d = Derivatives(A, B, record, np.zeros(N + 1), lz, H, H, np.ones((N + 1, nz)), np.empty(0))
    kept = Backward(d, cycle)
    for first in range(N):
        later = cycle.from_knot(first)
        later.expand(X, U, Expansion(A, B, record))
        assert kept.turned(later, structure_of(later, N))
        found = kept(0.0, 0.0)
        expected = dense_sweep(d, lambda *_: np.zeros((nz, nz)), later.closing(), 0.0, 0.0)
        assert found.failed == -1
        assert relative_error(found.K, expected.K) < 1e-7
        assert relative_error(found.k, expected.k) < 1e-7


def test_knots_beyond_a_cycle_from_a_later_knot_on_are_of_its_own_last_phase(case):
    system, X, U = case
    for first in range(1, system.knots):
        later, x, u = system.from_knot(first), X[first], U[first]
        of_same_phase = first - 1 + system.is_impact(first - 1)  # steps of a phase follow its impact
        assert not later.is_impact(later.knots)
        np.testing.assert_array_equal(later.step(x, u, later.knots + 2), system.step(x, u, of_same_phase))
        assert later.step_durations(later.knots + 1)[-1] == system.step_durations(system.knots)[of_same_phase]


def test_slices_know_their_knots(case):
    """Expanding from knot ``first`` on is expanding all and taking these; contracting at once is one by one."""
    system, X, U = case
    n, N, nz = system.n, system.knots, system.n + system.nu
    whole = Expansion.of(system, N, np.zeros)
    system.expand(X, U, whole)
    part = Expansion(*(np.zeros_like(array[1:]) for array in whole))
    system.expand(X[1:], U[1:], part, 1)
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[1:], b)
    address, context, _ = system.contraction()
    weight, H = np.cos(np.arange(N * n)).reshape(N, n), np.empty((N, nz, nz))
    system.contract(whole.record, weight, H)
    alone = np.empty_like(H)
    contract_rows(address, context, whole.record, weight, alone)
    for t in range(N):
        np.testing.assert_array_equal(H[t], system.hessian(X[t], U[t], weight[t], t))
        assert relative_error(alone[t], H[t]) < 1e-9


@pytest.mark.parametrize("name", ["trot", "swing"])
def test_contractions_past_the_first_eight_knots_of_a_phase_are_those_of_each(name, rng):
    few = SYSTEMS[name](rng)
    robot, system = few.robot, PhasedDynamics(few.robot, 0.01, [Phase(few.phases[0].contacts, 17), Phase((), 9)])
    N, near = system.knots, [pin.integrate(robot.model, robot.q0, v) for v in rng.normal(size=(26, robot.nv))]
    X = np.hstack([near, rng.normal(size=(N, robot.nv))])
    record, weight = expanded(system, X, rng.normal(size=(N, system.nu))).record, rng.normal(size=(N, system.n))
    many, each = np.empty((2, N, system.n + system.nu, system.n + system.nu))
    system.contract(record, weight, many)
    address, context, _ = system.contraction()
    contract_rows(address, context, record, weight, each)
    for t in range(N):
        assert relative_error(many[t], each[t]) < 1e-9


def test_no_order_reads_what_other_modes_left_in_memory(case):
    assert_memory_does_not_matter(*case)


def test_rollouts_follow_steps_and_policies(case, rng):
    system, X, U = case
    N, n = system.knots, system.n
    path = system.rollout(X[0], 0.1 * U)
    for t in range(N):
        np.testing.assert_array_equal(path[t + 1], system.step(path[t], 0.1 * U[t], t))
    k, K = rng.normal(size=U.shape), 0.1 * rng.normal(size=(N, system.nu, n))
    gaps, limit = 1e-3 * rng.normal(size=(N, n)), np.full(system.nu, 6.0)
    Xs, Us = system.track(path, 0.1 * U, k, K, np.array([0.0, 0.5]), gaps, -limit, limit)
    for alpha, xs, us in zip((0.0, 0.5), Xs, Us, strict=True):
        for t in range(N):
            u = np.clip(0.1 * U[t] + alpha * k[t] + K[t] @ system.difference(path[t], xs[t]), -limit, limit)
            np.testing.assert_allclose(us[t], u, rtol=1e-9, atol=1e-9)
            reached = system.integrate(system.step(xs[t], us[t], t), (alpha - 1.0) * gaps[t])
            np.testing.assert_allclose(xs[t + 1], reached, rtol=1e-9, atol=1e-9)


def test_a_rollout_of_no_controls_stays_where_it_begins():
    robot = dynamics.load("hyq")
    system, x = PhasedDynamics(robot, 0.01, Phase([Contact("lf_foot")])), np.concatenate([robot.q0, np.zeros(robot.nv)])
    np.testing.assert_array_equal(system.rollout(x, np.zeros((0, system.nu))), x[None])


def test_contacts_that_hold_what_others_hold_are_stepped_as_forward_dynamics_has_them(rng):
    """Three points of one shank and its foot."""
    robot = dynamics.load("anymal")
    points = [Contact(name) for name in (*points_of_a_shank(robot, rng), "LF_FOOT")]
    redundant, regular = (PhasedDynamics(robot, 0.01, Phase(some, 9)) for some in (points, points[:1]))
    assert (redundant.lanes, regular.lanes) == (0, 4)
    X = np.tile(np.concatenate([robot.q0, np.zeros(robot.nv)]), (9, 1))
    X[1:, robot.nq :] = 0.1 * rng.normal(size=(8, robot.nv))
    U = rng.normal(size=(9, redundant.nu))
    a, f = dynamics.contact_dynamics(robot, X[:, : robot.nq], X[:, robot.nq :], U @ redundant.actuation.T, points)
    after = redundant.step(X, U)
    np.testing.assert_allclose(after[:, robot.nq :], X[:, robot.nq :] + 0.01 * a, atol=1e-8)
    out = expanded(redundant, X, U)
    np.testing.assert_allclose(out.record[:, redundant.nx :][:, : robot.nv], a, atol=1e-6)
    np.testing.assert_allclose(out.record[:, redundant.nx + robot.nv + 1 :][:, :12], f, atol=1e-5 * np.abs(f).max())
    np.testing.assert_array_equal(redundant.rollout(X[0], U)[1], redundant.step(X[0], U[0]))


def test_standing_at_rest_stays(rng):
    robot, feet = dynamics.load("anymal"), FEET["anymal"]
    system = PhasedDynamics(robot, 0.01, Phase([Contact(foot) for foot in feet], 5))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    u = system.nominal_control(x)
    assert np.abs(system.rollout(x, np.tile(u, (5, 1))) - x).max() < 1e-10


def test_feet_of_legs_of_two_joints_are_not_held_all_at_once():
    """Sideways, four feet on the ground move by the body's motion there and its turn about the vertical alone."""
    problem = gaits.trot("solo8")
    assert np.isfinite(problem.dynamics.step(problem.guess[0][20], problem.guess[1][20], 20)).all()  # two feet stand
    said = r"FL_FOOT, .* in place: of 12 directions that are held, it moves 10 independently; legs of two"
    for guess in (None, problem.guess[1]):
        with pytest.raises(ddp.SolveError, match=said):
            ddp.solve(problem, guess=guess)


def test_steps_out_of_reach_name_the_foot():
    robot = dynamics.load("anymal")  # whose first foot is held 9 m ahead
    feet = [Contact(foot, target=(9.0 * (foot == "LF_FOOT"), 0.0, 0.0)) for foot in FEET["anymal"]]
    system = PhasedDynamics(robot, 0.01, Phase(feet, 2, held=True))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    place = pin.SE3(dynamics.frame_placement(robot, robot.q0, "LF_FOOT")).translation
    away = 1e3 * np.linalg.norm(place - feet[0].target)
    assert f"the furthest from there now is LF_FOOT, {away:.3g} mm" in str(system.undefined(x))
    problem = ddp.Problem(system, [], [lambda x, u: x @ x], x, 2, guess=(np.tile(x, (3, 1)), np.zeros((2, system.nu))))
    with pytest.raises(ddp.SolveError, match=r"not finite at knot 0 \(anymal: no step from .* LF_FOOT, .* mm\)"):
        ddp.solve(problem)


def test_copies_are_the_same(case):
    system, X, U = case
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(again.step(X, U), system.step(X, U))
    np.testing.assert_array_equal(again.step(X[-1], U[-1], 500), system.step(X[-1], U[-1], system.knots))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda robot: Phase((), 0), "knots of a phase: expected a whole number of at least 1, got 0"),
        (lambda robot: Phase(Contact("LF_FOOT"), 1, True, -1.0), "restitution: expected a number from 0 to 1"),
        (lambda robot: PhasedDynamics(robot, 0.01, []), "phases: expected at least one, got none"),
        (lambda robot: PhasedDynamics(robot, 0.01, [3]), "phases[0]: expected a Phase, got 3"),
        (lambda robot: PhasedDynamics(robot, -0.1, Phase((), 1)), "dt: expected a positive number"),
        (
            lambda robot: PhasedDynamics(robot, 0.01, [Phase(Contact("LF_FOT"), 1)]),
            "anymal has no frame 'LF_FOT'; did you mean 'LF_FOOT'",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, words):
    robot = dynamics.load("anymal")
    with pytest.raises((ProblemError, ModelError)) as caught:
        make(robot)
    assert words in str(caught.value)


def test_feet_that_pull_at_the_ground_are_told_of_unless_cones_keep_them():
    """A robot that is thrown up while its feet are held has to be held by them."""
    robot = dynamics.load("solo12")
    feet = [Contact(name) for name in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
    system = PhasedDynamics(robot, 0.01, Phase(feet, knots=6))
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    stands = np.tile(system.nominal_control(x0), (6, 1))
    cone, some = (friction_cone(system, held, 0.8, 1.0) for held in (feet, feet[:2]))
    lifts, hind = -2.0 * stands, "H[LR]_FOOT"
    for U, running, told in ((stands, [], ""), (lifts, [], "_FOOT"), (lifts, [cone], ""), (lifts, [some], hind)):
        X = system.rollout(x0, U)
        problem = ddp.Problem(system, [ControlCost(stands[0], 1.0), *running], [], x0, 6)
        found = [one for one in system.excesses(problem, X, U) if "pulls at the ground" in one]
        forces = dynamics.ground_forces(system, X, U)
        least = min((force[:, 2].min() for foot, force in forces.items() if re.search(told, foot)), default=0.0)
        assert bool(found) == bool(told)
        assert not told or re.search(f"{told} pulls at the ground with {-least:.3g} N", found[0])


@pytest.mark.parametrize("bend", [1e-2, 1e-3, 1e-4, 2e-5])
def test_arms_that_are_nearly_straight_are_held_however_many_there_are(bend, rng):
    """Each arm has a small pivot; that of another arm is no reason to take it for rounding."""
    model, tips = pin.Model(), [f"tip {arm}" for arm in range(3)]
    for tip in tips:
        joint, place = 0, pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
        for i, kind in enumerate((pin.JointModelRZ, pin.JointModelRY, pin.JointModelRY)):
            joint = model.addJoint(joint, kind(), place, f"{tip} {i}")
            inertia = pin.Inertia.FromSphere(1.0, 0.1)
            model.appendBodyToJoint(joint, inertia, pin.SE3(np.eye(3), np.array([0.25, 0.0, 0.0])))
            place = pin.SE3(np.eye(3), np.array([0.5 if i else 0.0, 0.0, 0.0]))
        model.addFrame(pin.Frame(tip, joint, 0, place, pin.OP_FRAME))
    system = PhasedDynamics(dynamics.load(model), 0.01, Phase([Contact(tip, gains=(0.0, 0.0)) for tip in tips], 1))
    q, u = rng.normal(size=9), rng.normal(size=9)
    q[2::3] = bend * np.array([1.0, 2.0, 3.0])
    x = np.append(q, np.zeros(9))
    assert np.abs(system.step(x, u) - x).max() < 1e-6
    A, B = system.linearize(x, u)
    assert np.abs(B).max() < 1e-6
    assert np.abs(A[9:, :9]).max() < 1e-10 / bend**2
