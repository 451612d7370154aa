"""Compositions around any system: exact derivatives, compiled rollouts, and solutions that dense methods find, too."""

import ctypes
import dataclasses
import pickle

import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import minimize

import ddp
from ddp import differences
from ddp.systems.system import Expansion, ability
from ddp.tracing import rollouts
from dynamics import Contact, FunctionDynamics, Phase, PhasedDynamics, RobotDynamics, augment, load
from dynamics.steps.free_start import FreeStart
from problems import arm
from problems.constraints import TorqueLimits, VelocityLimits
from problems.costs import ControlCost, FramePosition, StateCost
from problems.lifted import LiftedConstraint, LiftedTerm, free_start, lifted
from tests.oracles import chain_of, fourth_order, random_tree


def swinging(x, u, p):
    return x + 0.1 * np.array([x[1], u[0] * x[2] - p[0] * np.sin(x[0]), u[1] - x[2]])


OWN = FunctionDynamics(swinging, 3, 2, 0.1, parameters=[3.0])
PYTHON = FunctionDynamics(swinging, 3, 2, 0.1, parameters=[3.0], derivatives="differences")


def tree():
    return RobotDynamics(random_tree(5, bodies=3), 0.02)


def continuous(actuation=None):
    return RobotDynamics(chain_of("continuous"), 0.02, actuation)


def mixed(x, r):
    return np.cos(x[: len(r)]) * r[0] + r * np.sin(x[1])


COMPOSITIONS = {
    "rates": augment.rates, "delays": lambda s: augment.delays(s, 2), "motors": lambda s: augment.motors(s, 0.05),
    "elasticity": lambda s: augment.elasticity(s, lambda d: 10.0 * d + 5.0 * d**3, 0.1, 0.01, np.arange(s.nu) % 3),
    "driven": lambda s: augment.driven(s, mixed, s.nu),
    "remembering": lambda s: augment.remembering(s, 2, lambda x, s, r: r * s[0] + s[1] ** 2),
    "rates of motors": lambda s: augment.rates(augment.motors(s, 0.05)), "free start": FreeStart,
}  # fmt: skip


@pytest.fixture(scope="module")
def robot():
    return tree()


@pytest.mark.parametrize("make", COMPOSITIONS.values(), ids=COMPOSITIONS)
@pytest.mark.parametrize("inner", ["own", "python", "robot"])
def test_derivatives_of_compositions_are_those_of_their_steps(make, inner, robot, rng):
    system = make({"own": OWN, "python": PYTHON, "robot": robot}[inner])
    x = system.integrate(np.append(robot.robot.neutral(), np.zeros(system.nx - robot.robot.nq))
                         if inner == "robot" else np.zeros(system.nx), 0.3 * rng.normal(size=system.n))  # fmt: skip
    M, n, nu = 3, system.n, system.nu
    X, U, W = np.array([x] * M), rng.normal(size=(M, nu)), rng.normal(size=(M, n))
    out = Expansion(np.empty((M, n, n)), np.empty((M, n, nu)), np.empty((M, system.record_size)))
    system.expand(X, U, out)
    system.expand_second(X, U, out)
    H, alone = np.empty((M, n + nu, n + nu)), np.empty((n + nu, n + nu))
    system.contract(out.record, W, H)
    contraction = system.contraction()
    contract = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(contraction.address)
    for k in {0, M - 1}:
        after = system.step(X[k], U[k], k)

        def change(z, k=k, after=after):
            return system.difference(after, system.step(system.integrate(X[k], z[:n]), U[k] + z[n:], k))

        zero = np.zeros(n + nu)
        J = differences.real_jacobian(change, zero)
        np.testing.assert_allclose(np.hstack([out.A[k], out.B[k]]), J, rtol=0, atol=1e-10 * max(1.0, np.abs(J).max()))
        along = rng.normal(size=n + nu)
        bend = differences.real_hessian(lambda t, k=k: W[k] @ change(t[0] * along), np.zeros(1))[0, 0]  # noqa: B023
        assert along @ H[k] @ along == pytest.approx(bend, rel=1e-7, abs=1e-7)
        record, weight = out.record[k].copy(), W[k].copy()
        contract(contraction.context, record.ctypes.data, weight.ctypes.data, alone.ctypes.data)
        np.testing.assert_allclose(alone, H[k], rtol=0, atol=1e-12 * max(1.0, np.abs(H).max()))
        assert np.array_equal(alone, alone.T)


def complex_step(system):
    """The next state of a composition around `swinging` for complex numbers, by its own functions and no more."""
    if system is OWN:
        return lambda x, u: swinging(x, u, OWN.parameters)
    if isinstance(system, FreeStart):
        return lambda x, u: x + system.directions[:, : system.nu] @ u  # its first knot
    inner, nx = complex_step(system.system), system.system.nx

    def step(x, r):
        x, s = x[:nx], x[nx:]
        s_next = [] if system.memory is None else np.asarray(system.memory(x, s, r))
        return np.concatenate([inner(x, np.asarray(system.inputs(x, s, r))), s_next])

    return step


@pytest.mark.parametrize("make", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_derivatives_of_compositions_are_those_of_a_complex_step(make, rng):
    system = make(OWN)
    step, n, h = complex_step(system), system.n, 1e-30
    x, u, w = rng.normal(size=n), rng.normal(size=system.nu), rng.normal(size=n)

    def jacobian(z):
        columns = [step(z[:n] + 1j * h * e[:n], z[n:] + 1j * h * e[n:]).imag / h for e in np.eye(len(z))]
        return np.stack(columns, axis=1)

    z = np.concatenate([x, u])
    J = jacobian(z)
    np.testing.assert_allclose(np.hstack(system.linearize(x, u)), J, rtol=0, atol=1e-14 * max(1.0, np.abs(J).max()))
    H = np.stack([fourth_order(lambda t, e=e: w @ jacobian(z + t * e), 1e-3) for e in np.eye(len(z))])
    np.testing.assert_allclose(system.hessian(x, u, w), H, rtol=0, atol=1e-10 * max(1.0, np.abs(H).max()))


@pytest.mark.parametrize("make", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_rollouts_of_compositions_are_their_steps(make, robot, rng):
    for inner in (OWN, robot):
        system = make(inner)
        x0 = np.append(robot.robot.neutral(), np.zeros(system.nx - robot.robot.nq)) if inner is robot else np.zeros(
            system.nx
        )
        U = 0.3 * rng.normal(size=(5, system.nu))
        X = system.rollout(x0, U)
        for k, u in enumerate(U):
            np.testing.assert_allclose(X[k + 1], system.step(X[k], u, k), rtol=0, atol=1e-13)


def test_systems_called_in_python_roll_out_as_traced_ones_do(rng):
    for make in (FreeStart, lambda s: augment.rates(FreeStart(s)), lambda s: FreeStart(augment.delays(s, 1))):
        slow, quick = make(PYTHON), make(OWN)
        U = 0.3 * rng.normal(size=(6, quick.nu))
        found, expected = (system.rollout(np.zeros(quick.nx), U) for system in (slow, quick))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_delays_are_the_same_controls_later():
    system = augment.delays(OWN, 3)
    U = np.random.default_rng(0).normal(size=(9, 2))
    X = system.rollout(np.zeros(9), U)
    late = OWN.rollout(np.zeros(3), np.vstack([np.zeros((3, 2)), U[:-3]]))
    np.testing.assert_allclose(X[:, :3], late, rtol=0, atol=1e-15)


def test_terms_and_constraints_of_the_system_are_those_of_the_composition():
    system = RobotDynamics(load("ur5"), 0.01)
    robot = system.robot
    x = np.concatenate([robot.q0, np.zeros(6)])
    bent = augment.elasticity(system, lambda d: 100.0 * d + 50.0 * d**3, 0.1)
    terms = [FramePosition(robot, "tool0", [0.3, 0.2, 0.4], 10.0), ControlCost(np.ones(6), np.ones(6))]
    problem = ddp.Problem(
        bent, [LiftedTerm(term, bent) for term in terms], [LiftedTerm(terms[0], bent)],
        np.concatenate([x, robot.q0, np.zeros(6)]), 6, constraints=[LiftedConstraint(TorqueLimits(system), bent)],
    )  # fmt: skip
    report = ddp.check_derivatives(problem, knots=[0, 3, 6])
    assert report.ok, report


def test_springs_in_series_turn_the_joints_that_controls_drive(rng):
    """A robot with a floating base pushes its own joints: with a motor ahead of a joint by b, its torque is k b."""
    robot, S = load("hyq"), np.zeros((18, 2))
    S[7, 0], S[12, 1] = 1.0, 2.0
    x = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)])
    ahead = rng.normal(size=2)
    for plain in (RobotDynamics(robot, 0.01, S), augment.delays(RobotDynamics(robot, 0.01, S), 1)):
        state = np.append(x, rng.normal(size=plain.nx - robot.nq - robot.nv))
        motors = np.concatenate([x[[8, 13]] + ahead, np.zeros(2)])
        after = augment.elasticity(plain, [30.0, 40.0], 0.1).step(np.append(state, motors), np.zeros(2))
        np.testing.assert_allclose(after[: plain.nx], plain.step(state, [30.0, 40.0] * ahead), rtol=0, atol=1e-12)


def quadratic(horizon=8):
    """A double integrator, and its problem from x0."""
    system = FunctionDynamics(lambda x, u: x + 0.2 * np.array([x[1], u[0]]), 2, 1, 0.2)
    effort, goal = ControlCost(np.zeros(1), np.ones(1)), StateCost(system, np.array([1.0, 0.0]), np.array([5.0, 2.0]))
    return ddp.Problem(system, [effort], [goal], np.array([0.3, -0.2]), horizon)


def test_rates_of_controls_are_optimal_as_a_dense_solve_says():
    problem = quadratic()
    problem = lifted(problem, augment.rates(problem.dynamics), [0.4], running=[ControlCost(np.zeros(1), [0.1])])
    solution = ddp.solve(problem, ddp.DDP(tolerance=1e-14))

    def cost(R):
        return problem.cost(problem.dynamics.rollout(problem.x0, R[:, None]), R[:, None])

    dense = minimize(cost, np.zeros(8), method="BFGS", options={"gtol": 1e-10})
    assert solution.cost == pytest.approx(dense.fun, rel=1e-8)


def test_a_free_start_is_where_a_dense_solve_puts_it():
    plain = quadratic()
    near = StateCost(plain.dynamics, np.array([0.1, 0.5]), np.array([3.0, 1.0]))
    problem = free_start(plain, start=[near])
    solution = ddp.solve(problem, ddp.DDP(tolerance=1e-14))

    def cost(z):
        x0, U = z[:2], z[2:, None]
        return near.value(x0, np.zeros(1)) + plain.cost(plain.dynamics.rollout(x0, U), U)

    dense = minimize(cost, np.zeros(10), method="BFGS", options={"gtol": 1e-10})
    before = problem.dynamics.before
    assert before == 2
    np.testing.assert_allclose(solution.X[before], dense.x[:2], atol=1e-6)
    np.testing.assert_allclose(solution.U[before:, 0], dense.x[2:], atol=1e-6)
    assert solution.cost == pytest.approx(dense.fun, rel=1e-10)


def test_parameters_of_a_function_are_found_as_constant_states():
    truth = OWN.varied(parameters=[2.2])
    U = 0.5 * np.random.default_rng(1).normal(size=(30, 2))
    measured = truth.rollout(np.array([0.5, 0.0, 0.1]), U)
    system = augment.parameters(OWN)

    misfit = StateCost(system, np.hstack([measured[1:30], np.zeros((29, 1))]), np.array([50.0, 50.0, 50.0, 0.0]))
    problem = free_start(
        ddp.Problem(system, [], [], np.array([*measured[0], 3.0]), 30, control_limits=(U, U + 1e-9),
                    during={range(1, 30): [misfit]}),
        directions=np.array([[0.0], [0.0], [0.0], [1.0]]),
    )  # fmt: skip
    solution = ddp.solve(problem.with_guess(np.vstack([np.zeros((1, 2)), U])))
    assert solution.X[-1, 3] == pytest.approx(2.2, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: augment.rates(3), "system: expected an object of the Dynamics protocol"),
        (lambda: augment.delays(OWN, 0), "steps: expected a whole number"),
        (lambda: augment.motors(OWN, -1.0), "time: expected positive numbers, got -1.0"),
        (lambda: augment.elasticity(OWN, 1.0, 1.0, positions=[0, 7]), "positions: expected places from 0 to 2"),
        (lambda: augment.elasticity(continuous(), 1.0, 1.0), "positions: expected angles and lengths, got number 0"),
        (lambda: augment.elasticity(continuous(np.ones((1, 1))), 1.0, 1.0, positions=[1]), "got number 1 of x"),
        (lambda: augment.elasticity(RobotDynamics(load("ur5"), 0.01, np.ones((6, 1))), 1.0, 1.0),
         "positions: expected them given, as control 0 drives 6 degrees of freedom"),
        (lambda: augment.elasticity(RobotDynamics(load("ur5"), 0.01, -2.0 * np.eye(6)), 1.0, 1.0),
         "expected an actuation whose controls push joints forward, got -2 of control 0"),
        (lambda: augment.driven(OWN, 3, 1), r"inputs: expected a function of \(x, r\)"),
        (lambda: augment.driven(OWN, lambda x, r: x, 1), r"inputs: expected a value of shape \(2,\), got \(3,\)"),
        (lambda: augment.driven(OWN, lambda x, r: x[:2] * int(r[0]), 1), r"cannot be traced .* int\(\)"),
        (lambda: augment.parameters(PYTHON.varied), "system: expected a FunctionDynamics with parameters"),
        (lambda: FreeStart(OWN, np.zeros((2, 1))), "directions: expected 3 rows"),
        (lambda: free_start(3), "problem: expected a Problem"),
        (lambda: free_start(quadratic(), start=None), "start: expected a list of terms, got None"),
        (lambda: lifted(quadratic(), augment.rates(OWN), [0.0]), "expected an Augmented around the problem's"),
    ],
)
def test_malformed_compositions_are_refused(make, said):
    with pytest.raises(ddp.DDPError, match=said):
        make()


def test_compositions_of_implicit_steps_are_implicit():
    for integrator in ("implicit-euler", "semi-implicit-euler"):
        inner = RobotDynamics(random_tree(5, bodies=3), 0.02, integrator=integrator)
        composition = augment.rates(inner, np.tile([-1.0, 1.0], (inner.nu, 1)))
        assert ability(composition, "implicit") == (integrator == "implicit-euler")


def test_what_counts_on_steps_of_dt_is_refused_around_others():
    robot, feet = load("hyq"), [Contact("lf_foot"), Contact("rf_foot")]
    uneven = PhasedDynamics(robot, 0.02, [Phase(feet, 2), Phase((), 2, dt=0.04)])
    for make in (augment.rates, lambda s: augment.motors(s, 0.05), lambda s: augment.elasticity(s, 10.0, 0.1)):
        for inner in (uneven, FreeStart(uneven), augment.delays(uneven, 1)):
            with pytest.raises(ddp.ProblemError, match=r"steps that all take dt = 0\.02 s, got one of 0\.04 s"):
                make(inner)
    even = PhasedDynamics(robot, 0.02, [Phase(feet, 2), Phase(feet, 2, impact=True, dt=0.06 / 3.0)])
    assert augment.rates(even).nu == 12


def test_limits_of_the_systems_own_hold_for_controls_of_the_same_kind():
    robot = random_tree(5, bodies=3)
    own = np.tile([-2.0, 3.0], (robot.actuation.shape[1], 1))
    inner = RobotDynamics(robot, 0.02, control_limits=own)
    for make in (augment.delays, augment.motors):
        assert np.array_equal(make(inner, 2).control_limits, own)
        assert np.array_equal(make(inner, 2, 2.0 * own).control_limits, 2.0 * own)
    others = np.arange(inner.nu) % 3
    assert np.array_equal(augment.elasticity(inner, 10.0, 0.1, positions=others).control_limits, own)
    assert np.isinf(augment.rates(inner).control_limits).all()


def test_terms_of_a_composition_share_its_controls_and_sum_up_as_one_by_one(rng, monkeypatch):
    plain = RobotDynamics(load("ur5"), 0.01)
    system, x0 = augment.delays(plain, 2), np.concatenate([plain.robot.q0, np.zeros(6)])
    moving = FramePosition(plain.robot, "tool0", rng.normal(size=(6, 3)), 10.0)
    effort, rest = ControlCost(np.ones(6), np.ones(6)), StateCost(plain, x0, np.ones(12))
    traced = ddp.Problem(plain, [lambda x, u: x @ x * u[0]], [rest], x0, 6, during={range(1, 5): [effort]}).objective
    terms = [LiftedTerm(term, system) for term in (effort, moving, traced.entries[0].term)]
    X, U = system.rollout(np.concatenate([x0, rng.normal(size=12)]), rng.normal(size=(6, 6))), rng.normal(size=(6, 6))
    problem, later = (
        ddp.Problem(system, own, [LiftedTerm(rest, system)], X[0], 6, during={range(2, 4): [LiftedTerm(rest, system)]})
        for own in (terms, [])
    )
    padded, expected = np.vstack([U, np.zeros(6)]), np.zeros(7)
    for entry in problem.objective.entries:
        expected[entry.knots] += entry.weight * entry.term.values(X[entry.knots], padded[entry.knots])
    asked, inner = [], system.inner
    monkeypatch.setattr(system, "inner", lambda X, U: asked.append(len(X)) or inner(X, U))
    np.testing.assert_allclose(problem.values(X, U), expected, rtol=1e-13)
    assert asked == [7]  # compiled terms and the traced one at once
    ways = (problem, 0, 7, True), (problem, 2, 5, True), (later, 0, 7, True), (later, 3, 6, False)
    for one, start, stop, exact in ways:
        found, summed = one.allocate(np.zeros), one.allocate(np.zeros)
        one.objective.expand(X, U, found, start, stop, exact)
        for entry in one.objective.within(start, stop):
            own, H = entry.knots, summed.exact if exact else summed.lzz
            entry.term.expand(X[own], padded[own], entry.weight, exact, summed.l[own], summed.lz[own], H[own])
        for name in ("l", "lz", "lzz", "exact"):
            np.testing.assert_allclose(getattr(found, name), getattr(summed, name), rtol=1e-12, atol=1e-10)
    assert pickle.loads(pickle.dumps(ddp.Problem(system, terms[:2], [], X[0], 6))).cost(X, U) > 0.0


def test_a_users_term_that_is_not_defined_at_the_initial_state_is_lifted():
    class Away:
        def value(self, x, u):
            if x[0] < 0.1:
                raise ValueError("too near")
            return x[0] ** 2

    plain = ddp.Problem(OWN, [ControlCost(np.ones(2), np.ones(2))], [], np.array([0.0, 5.0, 0.0]), 6, at={3: [Away()]})
    problem = lifted(plain, augment.rates(OWN), np.zeros(2))
    X, U = problem.dynamics.rollout(problem.x0, np.ones((6, 2))), np.ones((6, 2))
    assert problem.values(X, U)[3] == plain.values(X[:, :3], X[:6, 3:])[3] > X[3, 0] ** 2
    with pytest.raises(ddp.ProblemError, match=r"at\[3\]\[0\] \(Away\): value raised ValueError: too near at knot 3"):
        problem.cost(np.zeros((7, 5)), U)


def test_terms_of_the_same_knots_find_the_slopes_of_inputs_once(rng, monkeypatch):
    system = augment.elasticity(OWN, 10.0, 0.1, positions=np.arange(2))

    class Careless:
        """Writes on what it is given."""

        def value(self, x, u):
            x[:], u[:] = x * x, u + x[:2]
            return x @ x + u[0]

    traced = ddp.Problem(OWN, [Careless(), lambda x, u: x @ x * u[0], lambda x, u: u @ u], [], np.zeros(3), 6)
    terms = [LiftedTerm(entry.term, system) for entry in traced.objective.entries]
    X, U = rng.normal(size=(7, system.nx)), rng.normal(size=(6, system.nu))

    def expanded(terms):
        problem = ddp.Problem(system, terms, [], X[0], 6)
        found = problem.allocate(np.zeros)
        problem.objective.expand(X, U, found, 0, 7, exact=True)
        return found.lz.copy(), found.exact.copy()

    alone = [expanded([term]) for term in terms]
    asked, slopes = [], system.inner_and_slopes
    monkeypatch.setattr(system, "inner_and_slopes", lambda X, U: asked.append(len(X)) or slopes(X, U))
    for found, expected in zip(expanded(terms), map(sum, zip(*alone, strict=True)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert asked.count(6) == 1
    U += 1.0
    asked.clear()
    moved = expanded(terms)[0]
    assert asked.count(6) == 1
    assert not np.array_equal(moved, found)


def test_rollouts_of_a_composition_lay_out_memory_once(rng, monkeypatch):
    asked, made = [], rollouts.motion_of
    monkeypatch.setattr(rollouts, "motion_of", lambda *given: asked.append(given) or made(*given))
    one, other = (augment.driven(inner, lambda x, r, a=a: a * r, 2) for a, inner in ((1.0, OWN), (2.0, OWN)))
    U = rng.normal(size=(7, 2))
    alone = [system.rollout(np.zeros(3), U) for system in (one, other)]
    assert not np.array_equal(*alone)
    asked.clear()
    for _ in range(3):  # by turns, in the memory of the last one
        for system, expected in zip((one, other), alone, strict=True):
            assert np.array_equal(system.rollout(np.zeros(3), U), expected)
    assert not asked


def test_numbers_of_lifted_terms_and_constraints_vary_as_those_of_the_problem():
    plain = arm.reach("ur5", horizon=8)
    limits = VelocityLimits(plain.dynamics.robot, limits=np.full(6, 3.0))
    plain = dataclasses.replace(plain, constraints=[limits])
    system, x0 = augment.rates(plain.dynamics), np.zeros(6)
    problem, target = lifted(plain, system, x0), pin.SE3(np.eye(3), np.array([0.3, 0.2, 0.5]))
    numbers = {"target": target, "running[0].weights": np.full(6, 0.1), "limits": np.full(6, 0.5)}
    varied, expected = problem.varying(numbers), lifted(plain.varying(numbers), system, x0)
    assert {place.field for place in problem.places.values()} == {place.field for place in plain.places.values()}
    X, R = system.rollout(problem.x0, np.ones((8, 6))), np.ones((8, 6))
    assert varied.cost(X, R) == expected.cost(X, R) != problem.cost(X, R)
    for one, other in zip(varied.placed, expected.placed, strict=True):
        np.testing.assert_array_equal(one.upper, other.upper)
    assert ddp.solve(varied).cost == ddp.solve(expected).cost
    assert varied.terminal[0].system is system
    with pytest.raises(ddp.ProblemError, match=r"^running\[0\] \(ControlCost\): weights: expected"):
        problem.varying({"running[0].weights": -np.ones(6)})
    poses = np.stack([target.homogeneous, np.array(plain.terminal[0].target.homogeneous)])
    many = ddp.solve_many(problem, {"target": poses}, executor=1)
    assert many.cost[1] == pytest.approx(ddp.solve(problem).cost, rel=1e-9)


@pytest.mark.parametrize("soften", [lambda c: c, lambda c: ddp.Soft(c, 0.3), lambda c: ddp.Soft(c, 2.0, "L2")])
def test_constraints_of_states_hold_at_all_knots_of_a_composition_as_soft_as_they_are(soften):
    plain = quadratic()
    slow = soften(ddp.Inequality(lambda x, u: x[1] - 0.3))
    plain = dataclasses.replace(plain, constraints=[slow])
    expected, free = ddp.solve(plain), ddp.solve(quadratic())
    assert free.X[:, 1].max() > expected.X[:, 1].max() + 0.01
    found = ddp.solve(lifted(plain, augment.driven(plain.dynamics, lambda x, r: r, 1), []))
    np.testing.assert_allclose(found.X, expected.X, atol=1e-6)
    assert found.cost == pytest.approx(expected.cost, rel=1e-6)
    loose = dataclasses.replace(plain, constraints=())
    own = ddp.solve(lifted(loose, augment.driven(plain.dynamics, lambda x, r: r, 1), [], constraints=[slow]))
    np.testing.assert_allclose(own.X, expected.X, atol=1e-6)  # those of the composition hold as a problem's own
    fixed = free_start(plain, start=[StateCost(plain.dynamics, plain.x0, np.full(2, 1e8))])
    moved = ddp.solve(fixed)
    np.testing.assert_allclose(moved.X[fixed.dynamics.before :], expected.X, atol=1e-5)


@pytest.mark.parametrize("soften", [lambda c: c, lambda c: ddp.Soft(c, [0.3, 2.0]), lambda c: ddp.Soft(c, 2.0, "L2")])
def test_rows_of_states_beside_rows_of_controls_hold_at_the_end_of_a_composition(soften):
    both = soften(ddp.Inequality(lambda x, u: np.array([u[0], x[1]]), upper=[0.8, 0.3]))
    plain = dataclasses.replace(quadratic(), constraints=[both])
    expected, at_end = ddp.solve(plain), plain.placed[0]
    assert (at_end.stop, *np.isinf(at_end.upper[-1])) == (plain.horizon + 1, True, False)
    found = ddp.solve(lifted(plain, augment.driven(plain.dynamics, lambda x, r: r, 1), []))
    np.testing.assert_allclose(found.X, expected.X, atol=1e-6)
    assert found.cost == pytest.approx(expected.cost, rel=1e-6)
    fixed = free_start(plain, start=[StateCost(plain.dynamics, plain.x0, np.full(2, 1e8))])
    np.testing.assert_allclose(ddp.solve(fixed).X[fixed.dynamics.before :], expected.X, atol=1e-5)
    upper = [0.8, 0.2]
    varied = ddp.solve(lifted(plain, augment.driven(plain.dynamics, lambda x, r: r, 1), []).varying(upper=upper))
    np.testing.assert_allclose(varied.X, ddp.solve(plain.varying(upper=upper)).X, atol=1e-6)


@pytest.mark.parametrize("where", ["constraints", "terminal_constraints"])
def test_bounds_that_come_to_hold_at_the_end_of_a_composition(where):
    """Rows of the end whose bounds are infinite till they vary: some of them, and all."""
    for first in (2.0, np.inf):
        free = ddp.Inequality(lambda x, u: x[:2], upper=[first, np.inf])
        plain = dataclasses.replace(quadratic(), **{where: [free]})
        made = lifted(plain, augment.driven(plain.dynamics, lambda x, r: r, 1), [])
        assert ddp.solve(made).cost == pytest.approx(ddp.solve(plain).cost, rel=1e-6)
        expected = ddp.solve(plain.varying(upper=[2.0, -0.2]))
        assert expected.X[-1, 1] < -0.1
        np.testing.assert_allclose(ddp.solve(made.varying(upper=[2.0, -0.2])).X, expected.X, atol=1e-6)


def test_limits_that_a_problem_has_left_out_do_not_come_back_with_a_free_start():
    class Own:
        nx, nu, dt, derivatives, control_limits = 2, 1, 0.1, "traced", np.array([[-0.5, 0.5]])

        def step(self, x, u):
            return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]])

    costs = [lambda x, u: 0.01 * u @ u], [lambda x, u: 50.0 * (x[0] - 1.0) ** 2]
    for given, most in (((-np.inf, np.inf), np.inf), (None, 0.5), ((-2.0, 2.0), 2.0)):
        problem = free_start(ddp.Problem(Own(), *costs, np.zeros(2), 12, control_limits=given), [[0.0], [1.0]])
        np.testing.assert_array_equal(problem.upper[:, 0], [np.inf, *[most] * 12])


def test_functions_of_lifted_problems_are_traced_again_where_what_they_read_has_changed():
    read = {"weight": 1.0, "bound": 1.0}

    def slow():
        system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, 0.1)
        plain = ddp.Problem(
            system, [lambda x, u: 0.5 * read["weight"] * u @ u], [lambda x, u: 50.0 * (x[0] - 1.0) ** 2 + x[1] ** 2],
            np.zeros(2), 15, constraints=[ddp.Inequality(lambda x, u: x[1] * read["bound"], upper=0.8)],
        )  # fmt: skip
        return lifted(plain, augment.delays(system, 1), np.zeros(1))

    problem = slow()
    before = ddp.solve(problem)
    for name in read:
        read[name] = 2.0
        U = ddp.solve(slow()).U
        assert np.abs(U - before.U).max() > 0.1
        assert np.array_equal(ddp.solve(problem).U, U)
        read[name] = 1.0
        assert problem.cost(before.X, before.U) == before.cost
        assert problem.violation(before.X, before.U) < 1e-6


def test_motions_that_leave_limits_of_the_robot_inside_are_told_of():
    plain = arm.reach("ur5", horizon=4)
    X, U = np.tile(plain.x0, (5, 1)), np.zeros((4, 6))
    X[2, 3], X[3, 8], U[1, 5] = 7.0, 4.0, -40.0
    told = plain.dynamics.excesses(plain, X, U)
    assert len(told) == 3
    rates = augment.rates(plain.dynamics)
    S = np.vstack([U, np.zeros(6)])
    assert rates.excesses(plain, np.hstack([X, S]), np.zeros((4, 6))) == told
    twice = augment.rates(rates)
    assert twice.excesses(plain, np.hstack([X, S, np.zeros((5, 6))]), np.zeros((4, 6))) == told
    assert augment.rates(FunctionDynamics(lambda x, u: x + u, 1, 1)).excesses(plain, X, U) == []
    free = FreeStart(plain.dynamics)
    chosen = np.full((free.before, 6), 99.0)  # which are no torques
    first = np.tile(plain.x0, (free.before, 1))
    assert free.excesses(plain, np.vstack([first, X]), np.vstack([chosen, U])) == told
    assert FreeStart(FunctionDynamics(lambda x, u: x + u, 1, 1)).excesses(plain, X, U) == []


def test_terms_of_a_robot_with_as_many_numbers_as_a_composition_by_chance_are_told_of():
    """A panda has 18, as a UR5 with motors that lag."""
    plain, panda = arm.reach("ur5", horizon=4), load("panda")
    system = augment.motors(plain.dynamics, 0.05)
    stranger, own = FramePosition(panda, "panda_hand", np.ones(3), 1.0), lifted(plain, system, np.zeros(6))
    assert own.dynamics.doubts(own) == []
    told = "FramePosition: made for panda, whose states are other numbers than those of motors that lag around ur5"
    assert system.doubts(dataclasses.replace(own, terminal=[*own.terminal, stranger])) == [told]


def test_terms_of_another_robot_are_told_of_where_the_start_is_free():
    plain, other = arm.reach("ur5", horizon=4), load("ur10")
    assert free_start(plain).dynamics.doubts(free_start(plain)) == []
    strange = dataclasses.replace(plain, terminal=[FramePosition(other, "tool0", np.ones(3), 1.0)])
    told = "FramePosition: made for ur10, whose joints lie elsewhere than those of ur5"
    assert free_start(strange).dynamics.doubts(free_start(strange)) == [told]
