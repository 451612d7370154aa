"""Costs on contact forces against differences of Pinocchio's forces, and soft limits against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import Constrained
from oracles import passive, sprung

from ddp import differences
from ddp.costs.batch import BatchTerm
from ddp.derivatives import EXACT, FIRST, RECORDS
from ddp.errors import ProblemError
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.problem import Problem
from ddp.systems.system import Expansion
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.model import load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.contact_costs import ForceLimits, StateLimits, contact_force, friction_cone
from tests.problems.test_costs import close

FEET = [Contact("lf_foot", gains=(0.0, 20.0)), Contact("rh_foot", gains=(0.0, 20.0), reference="local")]
SOLE = [Contact("left_sole_link", "surface", reference="local")]


@pytest.fixture(scope="module")
def systems(robots):
    springs = sprung(robots["hyq"], np.random.default_rng(0))
    return {
        "hyq": RobotDynamics(robots["hyq"], 0.01), "talos": RobotDynamics(load("talos_legs"), 0.01),
        "springs": RobotDynamics(springs, 0.01, damping=True),
    }  # fmt: skip


def state(system, rng):
    robot = system.robot
    q = pin.integrate(robot.model, robot.q0, 0.1 * rng.normal(size=robot.nv))
    return np.concatenate([q, 0.3 * rng.normal(size=robot.nv)])


class Oracle:
    """``½ w Σ (how far beyond)²`` of R f - target, with Pinocchio's forces f as functions of z = (dx, du)."""

    def __init__(self, term, x, u):
        self.term, self.x, self.u, self.system = term, x, u, term.system
        self.contacts = Constrained(self.system.robot, term.contacts)

    def forces(self, z):
        system, nq, nv = self.system, self.system.robot.nq, self.system.robot.nv
        x = system.integrate(self.x, z[: system.n])
        tau = system.actuation @ (self.u + z[system.n :]) + passive(system, x[:nq], x[nq:])
        return self.contacts.motion(x[:nq], x[nq:], tau)[nv:]

    def rows(self, z):
        return self.term.R @ self.forces(z) - self.term.target

    def excess(self, z):
        r, term = self.rows(z), self.term
        return np.maximum(r - term.upper, 0.0) + np.minimum(r - term.lower, 0.0)

    def value(self, z):
        return 0.5 * self.term.weight * np.sum(self.excess(z) ** 2)

    def clearance(self):
        """Distance of the rows from the kinks of the barrier."""
        r, term = self.rows(np.zeros(self.system.n + self.system.nu)), self.term
        gaps = np.abs([r - term.lower, r - term.upper])
        return gaps[:, term.lower < term.upper].min(initial=np.inf)


def agrees(term, rng):
    """At a random state; differences are as good as 1e-9 and 1e-7 where the barrier has no kink nearby."""
    for _ in range(100):
        x, u = state(term.system, rng), 30.0 * rng.normal(size=term.system.nu)
        oracle = Oracle(term, x, u)
        zero = np.zeros(term.system.n + term.system.nu)
        if oracle.clearance() > 20.0 and oracle.excess(zero).any():
            break
    close(term.forces(x[None], u[None])[0], oracle.forces(zero), 1e-9)
    assert term.value(x, u) == pytest.approx(oracle.value(zero), rel=1e-9)
    rates = differences.real_jacobian(oracle.rows, zero)
    e = oracle.excess(zero)
    active = np.where((e != 0.0)[:, None], rates, 0.0)
    close(term.gradient(x, u), term.weight * active.T @ e, 1e-8)
    close(term.hessian(x, u, exact=False), term.weight * active.T @ active, 1e-8)
    close(term.hessian(x, u), differences.real_hessian(oracle.value, zero), 1e-6)


def test_friction_cones_of_points_are_exact_to_second_order(systems, rng):
    agrees(friction_cone(systems["hyq"], FEET, 0.7, 1e-3), rng)


def test_friction_cones_of_a_robot_with_springs_are_exact_to_second_order(systems, rng):
    agrees(friction_cone(systems["springs"], FEET, 0.7, 1e-3), rng)


def test_friction_cones_and_centres_of_pressure_of_soles_are_exact_to_second_order(systems, rng):
    agrees(friction_cone(systems["talos"], SOLE, 0.4, 1e-3, faces=6, least=10.0, sole=(0.1, 0.05)), rng)


def test_a_tracked_force_is_exact_to_second_order(systems, rng):
    agrees(contact_force(systems["hyq"], FEET, 100.0 * rng.normal(size=6), 1e-3), rng)


def test_batches_add_up_knot_by_knot_and_follow_moving_targets(systems, rng):
    system, targets = systems["hyq"], 100.0 * rng.normal(size=(3, 6))
    term = contact_force(system, FEET, targets, 1e-3)
    X, U = np.array([state(system, rng) for _ in range(3)]), 10.0 * rng.normal(size=(3, system.nu))
    nz = system.n + system.nu
    l, lz, lzz = np.zeros(3), np.zeros((3, nz)), np.zeros((3, nz, nz))
    term.expand(X, U, 0.5, True, l, lz, lzz)
    for k in range(3):
        alone = contact_force(system, FEET, targets[k], 1e-3)
        assert term.values(X, U)[k] == alone.value(X[k], U[k]) == pytest.approx(2.0 * l[k], rel=1e-14)
        np.testing.assert_allclose(lz[k], 0.5 * alone.gradient(X[k], U[k]), rtol=1e-13)
        np.testing.assert_allclose(lzz[k], 0.5 * alone.hessian(X[k], U[k]), rtol=1e-13, atol=1e-12)
    part = term.part(1, 3)
    np.testing.assert_array_equal(part.values(X[1:], U[1:]), term.values(X, U)[1:])
    with pytest.raises(ProblemError, match="stretch of 3 knots, got 2"):
        term.values(X[1:], U[1:])


@pytest.mark.parametrize("held", [False, True])
def test_what_the_dynamics_have_found_of_forces_is_what_costs_find_themselves(held, rng):
    """To rounding: values of rollouts, derivatives of expansions, whatever knots are expanded together."""
    robot = load("anymal")
    gains, names = (0.0, 0.0 if held else 30.0), [f"{leg}_FOOT" for leg in ("LF", "LH", "RF", "RH")]
    feet = [Contact(name, target=place(robot, name), gains=gains) for name in names]
    system = PhasedDynamics(robot, 0.01, [Phase(feet[:2], 2, held=held), Phase(feet[1:], 11, feet[2:], held=held)])
    N, nz = system.knots, system.n + system.nu
    term = friction_cone(system, feet[1:], 0.3, 1e-3, least=100.0)
    pulled = contact_force(system, feet[1:], 50.0 * rng.normal(size=(11, 9)), 1e-3)
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    problem = Problem(system, [], [], x0, N, during={range(3, 14): [term, pulled]})
    U = np.array([system.nominal_control(x0, k) for k in range(N)]) + rng.normal(size=(N, system.nu))
    K, gaps = np.zeros((N, system.nu, system.n)), np.zeros((N, system.n))
    k = rng.normal(size=U.shape)
    Xs, Us, notes = problem.track(system.rollout(x0, U), U, k, K, np.array([1.0, 0.5]), gaps)
    for i in range(2):
        assert notes[i].size > 0
        assert problem.total(Xs[i], Us[i], notes[i]) == pytest.approx(problem.total(Xs[i], Us[i]), rel=1e-9)
    X, U, own = Xs[0], problem.padded(Us[0]), slice(3, 14)
    weights, plain = rng.normal(size=(N, system.n)), np.empty((N, nz, nz))
    alone = problem.allocate()
    expansion = Expansion(alone.A, alone.B, alone.record)
    system.expand(X[:N], U[:N], expansion)
    system.contract(alone.record, weights, plain)
    truth = [(np.zeros(11), np.zeros((11, nz)), np.zeros((11, nz, nz))) for _ in range(2)]
    for exact in (False, True):
        for one in (term, pulled):
            one.expand(X[own], U[own], system.dt, exact, *truth[exact])
    assert np.abs(truth[1][2] - truth[0][2]).max() > 0.01 * np.abs(truth[1][2]).max()
    for bounds in ((0, N + 1), (0, 5, 9, N + 1)):
        out, both = problem.allocate(), np.empty((N, nz, nz))
        for start, stop in pairwise(bounds):
            problem.expand(X, U, out, start, stop)
            problem.expand(X, U, out, start, stop, EXACT | RECORDS)
        for mine, given in zip((out.l, out.lz, out.lzz), truth[0], strict=True):
            close(mine[own], given, 1e-9)
            assert not mine[:3].any()
        system.contract(out.record, weights, both)
        close((out.hessians(problem.separable)[:N] + both)[own], truth[1][2] + plain[own], 1e-9)
        at_once, again = problem.allocate(), np.empty((N, nz, nz))
        problem.expand(X, U, at_once, 0, N + 1, FIRST | EXACT | RECORDS)
        system.contract(at_once.record, weights, again)
        np.testing.assert_array_equal(at_once.lz, out.lz)
        np.testing.assert_array_equal(at_once.hessians(problem.separable), out.hessians(problem.separable))
        np.testing.assert_array_equal(again, both)


def place(robot, frame):
    """Place of a frame in the robot's own posture."""
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    return data.oMf[robot.frame_id(frame)].translation


def test_forces_of_other_dynamics_or_other_contacts_are_not_read_from_what_these_have_found(rng):
    robot = load("anymal")
    feet = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0)) for leg in ("LF", "LH", "RF", "RH")]
    local = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0), reference="local") for leg in ("LF", "LH")]
    phases = [Phase(feet, 3), Phase(feet[:2], 3, feet[2:]), Phase(local, 3)]
    system, other = PhasedDynamics(robot, 0.01, phases), PhasedDynamics(robot, 0.01, phases)

    def reads(contacts, knots, of=system):
        return friction_cone(of, contacts, 0.3, 1e-3).noted(system, knots) is not None

    assert reads(feet, slice(0, 3))
    assert reads(feet[:2], slice(4, 7))
    assert not reads(feet, slice(0, 3), other)
    assert not reads(feet[::-1], slice(0, 3))
    assert not reads(feet[:2], slice(0, 3))
    assert not reads(feet[:2], slice(3, 7))
    assert not reads(local, slice(7, 10))
    assert not reads([Contact(foot.frame, gains=(0.0, 20.0)) for foot in feet], slice(0, 3))
    landing, bouncing = (friction_cone(system, feet[2:], 0.3, 1e-3, restitution=e) for e in (0.0, 0.5))
    assert landing.noted(system, slice(3, 4)) is not None
    assert landing.noted(system, slice(3, 5)) is None
    assert landing.noted(other, slice(3, 4)) is None
    assert bouncing.noted(system, slice(3, 4)) is None
    assert friction_cone(system, feet[2:], 0.3, 1e-3).noted(system, slice(3, 4)) is None


def test_running_costs_read_forces_as_those_of_the_whole_stretch_do():
    robot = load("anymal")
    feet = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0)) for leg in ("LF", "LH", "RF", "RH")]
    system = PhasedDynamics(robot, 0.01, Phase(feet, 5))
    term, x0 = friction_cone(system, feet, 0.3, 1e-3, least=200.0), np.append(robot.q0, np.zeros(robot.nv))
    running = Problem(system, [term], [], x0, 5)
    during = Problem(system, [], [], x0, 5, during={range(5): [term]})
    assert running.objective.noted
    assert not running.objective.interpreted
    U = np.zeros((5, system.nu))
    X = system.rollout(x0, U)
    np.testing.assert_array_equal(running.values(X, running.padded(U)), during.values(X, during.padded(U)))
    assert running.values(X, running.padded(U)).any()


def test_guesses_cost_what_derivatives_record_of_their_forces(rng, monkeypatch):
    robot = load("anymal")
    feet = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0)) for leg in ("LF", "LH", "RF", "RH")]
    system = PhasedDynamics(robot, 0.01, Phase(feet, 5))
    term, x0 = friction_cone(system, feet, 0.3, 1e-3, least=200.0), np.append(robot.q0, np.zeros(robot.nv))
    problem = Problem(system, [term], [], x0, 5)
    X, U = np.tile(x0, (6, 1)), rng.normal(size=(5, system.nu))
    X[1:, -robot.nv :] += rng.normal(size=(5, robot.nv))
    guess, truth = Guess(X, U, np.zeros((5, system.nu, system.n)), imposed=True), problem.total(X, U)
    moved = system.rollout(x0, U)
    bound = problem.total(moved, U)
    monkeypatch.setattr(ForceLimits, "values", None)  # which would differentiate the dynamics once more
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, guess)
        assert iterate.cost == pytest.approx(truth, rel=1e-12)
        assert iterate.bound == pytest.approx(bound, rel=1e-12)
        known = iterate.known
        iterate.sweep(0.0, 1.0)
        assert iterate.known == known


def test_guesses_that_a_term_in_python_cannot_price_are_told_by_its_value():
    class Nowhere:
        def values(self, X, U):
            return np.full(len(X), np.inf)

        def expand(self, X, U, weight, exact, l, lz, lzz):
            raise ZeroDivisionError

    robot = load("anymal")
    feet = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0)) for leg in ("LF", "LH", "RF", "RH")]
    system, x0 = PhasedDynamics(robot, 0.01, Phase(feet, 5)), np.append(robot.q0, np.zeros(robot.nv))
    problem = Problem(system, [friction_cone(system, feet, 0.3, 1e-3, least=200.0), Nowhere()], [], x0, 5)
    guess = Guess(np.tile(x0, (6, 1)), np.zeros((5, system.nu)), np.zeros((5, system.nu, system.n)), imposed=True)
    with differentiator(problem, 1) as work:
        assert Iterate(problem, work, guess).obstacle.startswith("the guess has no finite cost")


def test_impulses_that_the_dynamics_have_found_are_what_costs_find_themselves(rng):
    robot = load("anymal")
    feet = [Contact(f"{leg}_FOOT", gains=(0.0, 30.0)) for leg in ("LF", "LH", "RF", "RH")]
    system = PhasedDynamics(robot, 0.01, [Phase((), 2), Phase(feet, 2, feet[1:], 0.3)])
    N, n, nz = system.knots, system.n, system.n + system.nu
    term = friction_cone(system, feet[1:], 0.3, 1e-3, least=10.0, restitution=0.3)
    x0 = np.concatenate([robot.q0, rng.normal(size=robot.nv)])
    problem, U = Problem(system, [], [], x0, N, at={2: [term]}), rng.normal(size=(N, system.nu))
    X, K, gaps = system.rollout(x0, U), np.zeros((N, system.nu, n)), np.zeros((N, n))
    Xs, Us, notes = problem.track(X, U, np.zeros_like(U), K, np.ones(1), gaps)
    assert problem.total(Xs[0], Us[0], notes[0]) == pytest.approx(term.value(X[2], U[2]), rel=1e-9)
    weights, out, H = rng.normal(size=(N, n)), problem.allocate(), np.empty((2, N, nz, nz))
    problem.expand(X, problem.padded(U), out, 0, N + 1, FIRST | EXACT | RECORDS)
    system.contract(out.record, weights, H[0])
    plain = Expansion(np.empty((N, n, n)), np.empty((N, n, system.nu)), np.empty((N, system.record_size)))
    system.expand(X[:N], U, plain)
    system.expand_second(X[:N], U, plain)
    system.contract(plain.record, weights, H[1])
    close(out.lz[2], term.gradient(X[2], U[2]), 1e-9)
    close((out.hessians(problem.separable)[:N] + H[0] - H[1])[2], term.hessian(X[2], U[2]), 1e-9)


@pytest.mark.parametrize("faces", [3, 4, 8])
def test_a_force_costs_nothing_exactly_within_its_pyramid(systems, faces):
    term = friction_cone(systems["hyq"], FEET[:1], 0.5, 1.0, faces=faces, normal=(0.0, 0.6, 0.8))
    n, rng = np.array([0.0, 0.6, 0.8]), np.random.default_rng(1)
    for _ in range(200):
        f = rng.normal(size=3) + n
        rows = term.R @ f
        free = bool((rows <= term.upper).all() and (rows >= term.lower).all())
        across, along = f - n * (f @ n), f @ n
        if np.linalg.norm(across) < 0.5 * along:
            assert free
        if along < 0.0 or np.linalg.norm(across) > 0.5 * along / np.cos(np.pi / faces):
            assert not free


def test_a_pyramid_can_be_within_the_cone(systems):
    term = friction_cone(systems["hyq"], FEET[:1], 0.5, 1.0, faces=8, inside=np.cos(np.pi / 8))
    angles = np.linspace(0.0, 2.0 * np.pi, 100)
    on_cone = np.stack([0.5 * np.cos(angles), 0.5 * np.sin(angles), np.ones(100)])
    assert (term.R[:8] @ on_cone).max(axis=0).min() >= -1e-12
    assert term.friction == 0.5


def test_state_limits_cost_what_is_beyond_them(robots, rng):
    robot = robots["hyq"]
    n = 2 * robot.nv
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    lower[6 : robot.nv], upper[6 : robot.nv], lower[robot.nv], upper[-1] = -0.5, 0.5, -1.0, 2.0
    term, plain = StateLimits(robot, lower, upper, 3.0), RobotDynamics(robot, 0.01)
    x = np.concatenate([robot.random_configuration(rng), 3.0 * rng.normal(size=robot.nv)])

    def value(dx):
        y = plain.integrate(x, dx)
        t = np.concatenate([np.zeros(6), y[7:]])
        return 1.5 * np.sum(np.maximum(t - upper, 0.0) ** 2 + np.minimum(t - lower, 0.0) ** 2)

    assert term.value(x, np.zeros(2)) == pytest.approx(value(np.zeros(n)), rel=1e-14)
    close(term.gradient(x, np.zeros(2))[:n], differences.real_jacobian(value, np.zeros(n)), 1e-9)
    close(term.hessian(x, np.zeros(2))[:n, :n], differences.real_hessian(value, np.zeros(n)), 1e-7)


def test_terms_are_batch_terms(systems):
    assert isinstance(friction_cone(systems["hyq"], FEET, 0.7, 1.0), BatchTerm)


def test_what_is_malformed_is_named(systems, robots):
    system = systems["hyq"]
    for field, make in {
        "contacts": lambda: friction_cone(system, [], 0.7, 1.0),
        "mu": lambda: friction_cone(system, FEET, -0.7, 1.0),
        "inside": lambda: friction_cone(system, FEET, 0.7, 1.0, inside=0.0),
        "faces": lambda: friction_cone(system, FEET, 0.7, 1.0, faces=2),
        "normal": lambda: friction_cone(system, FEET, 0.7, 1.0, normal=(0.0, 0.0, 0.0)),
        "weight": lambda: friction_cone(system, FEET, 0.7, -1.0),
        "target": lambda: contact_force(system, FEET, np.zeros(5), 1.0),
        "system": lambda: friction_cone(robots["hyq"], FEET, 0.7, 1.0),
        "sole": lambda: friction_cone(systems["talos"], SOLE, 0.7, 1.0, sole=(0.1, -0.1)),
        "'left_sole_link' with reference 'local'": lambda: friction_cone(
            systems["talos"], [Contact("left_sole_link", "surface")], 0.7, 1.0
        ),
        "R": lambda: ForceLimits(system, FEET, np.zeros((2, 5)), np.zeros(2), np.zeros(2), 1.0),
        "upper": lambda: ForceLimits(system, FEET, np.zeros((2, 6)), np.zeros(2), np.zeros(3), 1.0),
        "at \\[0\\]": lambda: StateLimits(robots["hyq"], np.zeros(36), np.full(36, np.inf), 1.0),
    }.items():
        with pytest.raises(ProblemError, match=field):
            make()


def test_an_impact_whose_numbers_overflow_costs_no_number_and_raises_nothing(robots):
    robot = robots["hyq"]
    system = PhasedDynamics(robot, 0.01, [Phase(FEET, 1), Phase(FEET, 1, impact=True)])
    x = np.concatenate([robot.q0, np.full(robot.nv, 1.7e308)])
    for restitution in (None, 0.0):
        term = friction_cone(system, FEET, 0.5, 1.0, restitution=restitution)
        assert np.isnan(term.values(x[None], np.zeros((1, system.nu)))).all()
