"""A robot's discrete step: against Pinocchio, to first and second order on the manifold, fast rotations included."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from oracles import as_matrices, chain_of, fourth_order, newton, passive, random_tree, relative_error, sprung
from thorough import cases

import dynamics
from ddp.compiling.kernel import call_contraction, kernel
from ddp.errors import ProblemError
from ddp.protocols import Dynamics
from ddp.systems.structure import numbers_of_blocks
from ddp.systems.system import Expansion
from dynamics import RobotDynamics


def systems():
    rng = np.random.default_rng(7)
    groups = chain_of("planar", "spherical", "translation", "helical unaligned", "free-flyer", "spherical")
    damped = random_tree(6)
    damped.model.damping = rng.uniform(0.0, 1.0, damped.nv)
    damped = dynamics.load(damped.model)
    springs, arm = sprung(random_tree(5), rng), sprung(dynamics.load("ur5"), rng)
    return {
        "ur5": RobotDynamics(dynamics.load("ur5"), 0.01),
        "hyq": RobotDynamics(dynamics.load("hyq"), 0.02),
        "iris": RobotDynamics(dynamics.load("iris"), 0.05, actuation=rng.normal(size=(6, 4))),
        "tree 5": RobotDynamics(random_tree(5), 0.03),
        "spherical": RobotDynamics(chain_of("spherical"), 0.03),
        "groups": RobotDynamics(groups, 0.03),
        "damped": RobotDynamics(damped, 0.03, damping=True),
        "ur5 euler": RobotDynamics(dynamics.load("ur5"), 0.01, integrator="euler"),
        "hyq euler": RobotDynamics(dynamics.load("hyq"), 0.02, integrator="euler"),
        "groups euler": RobotDynamics(groups, 0.03, integrator="euler"),
        "ur5 rk4": RobotDynamics(dynamics.load("ur5"), 0.01, integrator="rk4"),
        "hyq rk4": RobotDynamics(dynamics.load("hyq"), 0.02, integrator="rk4"),
        "iris rk4": RobotDynamics(dynamics.load("iris"), 0.05, rng.normal(size=(6, 4)), "rk4"),
        "groups rk4": RobotDynamics(groups, 0.01, integrator="rk4"),
        "damped rk4": RobotDynamics(damped, 0.02, integrator="rk4", damping=True),
        "springs": RobotDynamics(springs, 0.03, damping=True),
        "ur5 springs": RobotDynamics(arm, 0.02),
        "springs euler": RobotDynamics(springs, 0.03, integrator="euler"),
        "springs rk4": RobotDynamics(springs, 0.02, integrator="rk4", damping=True),
        "ur5 implicit": RobotDynamics(dynamics.load("ur5"), 0.02, integrator="sdirk2"),
        "hyq implicit": RobotDynamics(dynamics.load("hyq"), 0.002, integrator="implicit-midpoint"),
        "groups implicit": RobotDynamics(groups, 0.001, integrator="sdirk2"),
        "springs implicit": RobotDynamics(springs, 0.001, integrator="implicit-euler", damping=True),
    }


def state(system, rng, speed):
    robot = system.robot
    return np.concatenate([robot.random_configuration(rng), speed * rng.normal(size=robot.nv)])


def pin_bracket(model, x, y):
    """[x, y] of two velocities (nv,), joint by joint."""
    out = np.zeros(model.nv)
    for joint in list(model.joints)[1:]:
        data = joint.createData()
        joint.calc(data, pin.neutral(model))
        S, v = np.reshape(data.S, (6, joint.nv)), slice(joint.idx_v, joint.idx_v + joint.nv)
        out[v] = np.linalg.pinv(S) @ pin.Motion(S @ x[v]).cross(pin.Motion(S @ y[v])).vector
    return out


GAMMA = 1.0 - 1.0 / np.sqrt(2.0)
STAGES = {
    "implicit-euler": [(1.0, 1.0, 1.0)], "implicit-midpoint": [(0.5, 1.0, 1.0)],
    "sdirk2": [(1.0, GAMMA, 1.0 / GAMMA - 1.0), (1.0, GAMMA, 1.0)],
}  # fmt: skip
"""Of implicit steps: where each stage looks at motion, how long it is, how far it goes."""


def pin_stage(system, data, q, v, u, theta, h, kappa):
    """One stage of an implicit step, by Newton iterations on Pinocchio's inverse dynamics."""
    model = system.robot.model

    def seen(after):
        middle = (1.0 - theta) * v + theta * after
        return pin.integrate(model, q, theta * h * middle), middle

    def residual(after):
        tau = pin.rnea(model, data, *seen(after), (after - v) / h)
        return h * (tau - system.actuation @ u - passive(system, *seen(after)))

    after = newton(residual, v, 1e-6)
    return pin.integrate(model, q, kappa * h * seen(after)[1]), v + kappa * (after - v)


def pin_step(system, x, u):
    """One step by Pinocchio alone."""
    model, h = system.robot.model, system.dt
    data = model.createData()
    q, v = x[: model.nq], x[model.nq :]

    def acceleration(q, v):
        return pin.aba(model, data, q, v, system.actuation @ u + passive(system, q, v)).copy()

    if system.integrator == "semi-implicit-euler":
        v1 = v + h * acceleration(q, v)
        return np.concatenate([pin.integrate(model, q, h * v1), v1])
    if system.integrator in STAGES:
        for theta, share, kappa in STAGES[system.integrator]:
            q, v = pin_stage(system, data, q, v, u, theta, h * share, kappa)
        return np.concatenate([q, v])
    if system.integrator == "euler":
        return np.concatenate([pin.integrate(model, q, h * v), v + h * acceleration(q, v)])
    a1 = acceleration(q, v)
    v2 = v + h / 2 * a1
    a2 = acceleration(pin.integrate(model, q, h / 2 * v), v2)
    v3 = v + h / 2 * a2
    a3 = acceleration(pin.integrate(model, q, h / 2 * v2 + h**2 / 8 * pin_bracket(model, v, v2)), v3)
    v4 = v + h * a3
    a4 = acceleration(pin.integrate(model, q, h * v3), v4)
    xi = h / 6 * (v + 2 * v2 + 2 * v3 + v4) + h**2 / 12 * pin_bracket(model, v, v4)
    return np.concatenate([pin.integrate(model, q, xi), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)])


def pin_perturb(system, x, dx):
    robot = system.robot
    q = pin.integrate(robot.model, x[: robot.nq], dx[: robot.nv])
    return np.concatenate([q, x[robot.nq :] + dx[robot.nv :]])


def pin_difference(system, x0, x1):
    robot = system.robot
    return np.concatenate(
        [pin.difference(robot.model, x0[: robot.nq], x1[: robot.nq]), x1[robot.nq :] - x0[robot.nq :]]
    )


SYSTEMS = systems()


@pytest.fixture(params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]


SPEEDS = (0.0, 1.0, 30.0)
"""Joint and base speeds [rad/s, m/s]; 30 turns a base by more than one radian in one step."""


def at_speeds(names):
    """Each system at every speed; in the suite at one, in turn."""
    every = [(name, speed) for name in names for speed in SPEEDS]
    few = [(name, SPEEDS[-i % 3]) for i, name in enumerate(names)]
    return pytest.mark.parametrize(("system", "speed"), cases(every, few), indirect=["system"])


@at_speeds(SYSTEMS)
def test_a_step_is_pinocchios(system, speed, rng):
    x, u = state(system, rng, speed), rng.normal(size=system.nu)
    assert isinstance(system, Dynamics)
    truth = pin_step(system, x, u)
    assert relative_error(system.step(x, u), truth) < 1e-11
    X = system.rollout(x, np.stack([u, u]))
    assert np.array_equal(X[0], x)
    assert np.array_equal(X[1], system.step(x, u))
    assert np.array_equal(X[2], system.step(X[1], u))


def test_integrate_and_difference_are_pinocchios_and_invert_each_other(system, rng):
    x, dx = state(system, rng, 1.0), 2.0 * rng.normal(size=system.n)
    moved = system.integrate(x, dx)
    assert np.allclose(moved, pin_perturb(system, x, dx), rtol=0, atol=1e-12)
    assert np.allclose(system.difference(x, moved), pin_difference(system, x, moved), rtol=0, atol=1e-12)
    again = system.integrate(x, system.difference(x, moved))  # the same attitude, perhaps the other quaternion
    assert np.abs(system.difference(moved, again)).max() < 1e-12


@at_speeds(SYSTEMS)
def test_linearize_is_the_derivative_of_pinocchios_step(system, speed, rng):
    x, u = state(system, rng, speed), rng.normal(size=system.nu)
    A, B = system.linearize(x, u)
    nominal = pin_step(system, x, u)

    def moved(dz):
        following = pin_step(system, pin_perturb(system, x, dz[: system.n]), u + dz[system.n :])
        return system.difference(nominal, following)  # Pinocchio's is off by 1e-9 for (cos, sin) a small angle apart

    columns = [fourth_order(lambda t, e=e: moved(t * e)) for e in np.eye(system.n + system.nu)]
    assert relative_error(np.hstack([A, B]), np.stack(columns, axis=1)) < 2e-8


@at_speeds(SYSTEMS)
def test_hessian_is_exactly_symmetric_and_the_second_derivative_along_every_direction(system, speed, rng):
    """With ⊖ at the nominal next state, d²/dt² of weight·(f(x ⊕ t dx, u + t du) ⊖ f(x, u)) is δᵀ H δ.

    Differences of first derivatives: f(x ⊕ t d) ⊖ f(x) has the rate Jlog(...) A(t) d_t, all of it by Pinocchio's own
    difference and dDifference; A(t), B(t) from ``linearize``, which the test before holds against Pinocchio.
    """
    robot = system.robot
    x, u = state(system, rng, speed), rng.normal(size=system.nu)
    weight = rng.normal(size=system.n)
    H = system.hessian(x, u, weight)
    assert np.array_equal(H, H.T)
    nominal = pin_step(system, x, u)
    nv, nq = robot.nv, robot.nq
    for _ in range(5):
        delta = rng.normal(size=system.n + system.nu)
        delta /= np.linalg.norm(delta)

        def rate(t, delta=delta):
            xt, ut = pin_perturb(system, x, t * delta[: system.n]), u + t * delta[system.n :]
            A, B = system.linearize(xt, ut)
            moved = A @ delta[: system.n] + B @ delta[system.n :]  # exp(t d) moves along d: its body rate is d
            _, J = pin.dDifference(robot.model, nominal[:nq], pin_step(system, xt, ut)[:nq])
            return weight[:nv] @ J @ moved[:nv] + weight[nv:] @ moved[nv:]

        second = fourth_order(rate, 2e-4)  # longer steps meet the Taylor branches of Pinocchio's logarithms
        scale = np.abs(delta) @ np.abs(H) @ np.abs(delta)
        assert abs(delta @ H @ delta - second) < 1e-8 * scale


@pytest.mark.parametrize("bodies", [1, 2, 5, 7, 8, 9, 16, 17, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_velocities_have_one_second_order_by_every_code(bodies, seed, rng):
    """v' = v + h a is the same by both Euler steps, which contract by kernels of their own."""
    robot = random_tree(seed, bodies=bodies)
    actuation = rng.normal(size=(robot.nv, int(rng.integers(1, robot.nv + 3))))
    one, other = (RobotDynamics(robot, 0.03, actuation, name) for name in ("semi-implicit-euler", "euler"))
    x, u = state(one, rng, 1.0), rng.normal(size=one.nu)
    weight = np.concatenate([np.zeros(robot.nv), rng.normal(size=robot.nv)])
    assert relative_error(one.hessian(x, u, weight), other.hessian(x, u, weight)) < 1e-11


def blocks_of(system, X, U, weights):
    """qq, qv, vv, nq, nn (nv, nv) of each of M knots, and the rows E (M, nv, nz) of δv'."""
    (M, n), nv, nu = weights.shape, system.robot.nv, system.nu
    out = Expansion(np.empty((M, n, n)), np.empty((M, n, nu)), np.empty((M, system.record_size)))
    system.expand(X, U, out)
    _, bent = system.semi_implicit
    flat = np.zeros((M, numbers_of_blocks(nv, bent)))
    system.contract_batch(out.record, weights, flat)
    return [as_matrices(own, nv, bent) for own in flat], np.concatenate([out.A[:, nv:], out.B[:, nv:]], axis=2)


@at_speeds(["ur5", "hyq", "iris", "tree 5", "spherical", "groups", "damped", "springs"])
def test_second_orders_of_many_knots_are_blocks_of_each_ones_hessian(system, speed, rng):
    m, n = system.robot.nv, system.n
    X = np.stack([state(system, rng, speed) for _ in range(11)])
    U, weights = rng.normal(size=(11, system.nu)), rng.normal(size=(11, n))
    blocks, E = blocks_of(system, X, U, weights)
    for t, (qq, qv, vv, nq, nn) in enumerate(blocks):
        assert relative_error(nn, nn.T) < 1e-12
        H = np.zeros((n + system.nu, n + system.nu))
        H[:m, :m], H[:m, m:n], H[m:n, :m], H[m:n, m:n] = qq, qv, qv.T, vv
        H[:m] += nq.T @ E[t]
        H[:, :m] += E[t].T @ nq
        H += E[t].T @ nn @ E[t]
        assert relative_error(H, system.hessian(X[t], U[t], weights[t])) < 1e-11


@kernel
def contract_through(address, context, record, weight, hessian):
    call_contraction(address, context, record, weight, hessian)


def test_the_compiled_contraction_writes_the_hessian(system, rng):
    x, u, weight = state(system, rng, 1.0), rng.normal(size=system.nu), rng.normal(size=system.n)
    n, nz = system.n, system.n + system.nu
    out = Expansion(np.empty((1, n, n)), np.empty((1, n, system.nu)), np.empty((1, system.record_size)))
    system.expand(x[None], u[None], out)
    system.expand_second(x[None], u[None], out)
    H = np.empty((nz, nz))
    address, context, _ = system.contraction()
    contract_through(address, context, out.record.ctypes.data, weight.ctypes.data, H.ctypes.data)
    assert relative_error(H, system.hessian(x, u, weight)) < 1e-12
    system.contract(out.record, weight[None], out=(batch := np.empty((1, nz, nz))))
    assert np.array_equal(batch[0], system.hessian(x, u, weight))


def test_track_with_no_gains_is_the_rollout(system, rng):
    U = 0.1 * rng.normal(size=(8, system.nu))
    X = system.rollout(state(system, rng, 0.5), U)
    k, K = rng.normal(size=(8, system.nu)), np.zeros((8, system.nu, system.n))
    free = np.full(system.nu, np.inf)
    Xs, Us = system.track(X, U, k, K, np.array([0.0, 0.5]), np.zeros((8, system.n)), -free, free)
    assert np.array_equal(Xs[0], X)
    assert np.array_equal(Us[0], U)
    assert np.allclose(Us[1], U + 0.5 * k, rtol=0, atol=1e-15)
    Us = system.track(X, U, k, K, np.ones(1), np.zeros((8, system.n)), U - 0.1, U + 0.2)[1]
    assert np.array_equal(Us[0], np.clip(U + k, U - 0.1, U + 0.2))


def test_a_step_leaves_the_share_of_gaps_that_it_does_not_take(system, rng):
    U, free = 0.1 * rng.normal(size=(8, system.nu)), np.full(system.nu, np.inf)
    X = np.array([state(system, rng, 0.5) for _ in range(9)])
    gaps = system.difference(X[1:], system.step(X[:-1], U))
    k, K = 0.1 * rng.normal(size=U.shape), 0.1 * rng.normal(size=(8, system.nu, system.n))
    alphas = np.array([0.0, 0.25, 1.0])
    Xs, Us = system.track(X, U, k, K, alphas, gaps, -free, free)
    np.testing.assert_allclose(system.difference(X, Xs[0]), 0.0, rtol=0, atol=1e-11)
    left = system.difference(Xs[1, 1:], system.step(Xs[1, :-1], Us[1]))
    np.testing.assert_allclose(left, 0.75 * gaps, rtol=0, atol=1e-9 * (1.0 + np.abs(gaps).max()))
    assert np.array_equal(Xs[2], system.rollout(X[0], Us[2]))


def test_a_divergent_rollout_ends_in_nan_from_one_knot_on():
    system = RobotDynamics(dynamics.load("ur5"), 0.1)
    X = system.rollout(np.zeros(12), np.full((200, 6), 1e6))
    finite = np.isfinite(X).all(axis=1)
    assert finite[0]
    assert not finite[-1]
    assert not finite[np.argmin(finite) :].any()


def test_a_pickled_copy_steps_alike(system, rng):
    x, u = state(system, rng, 1.0), rng.normal(size=system.nu)
    assert np.array_equal(pickle.loads(pickle.dumps(system)).step(x, u), system.step(x, u))


@pytest.mark.parametrize("ask", ["excesses", "turn", "prescribed_torques"])
def test_states_of_the_wrong_shape_are_named(ask):
    system = RobotDynamics(dynamics.load("ur5"), 0.1)
    X, U = np.zeros((3, 11)), np.zeros((3, 6))
    given = {"prescribed_torques": (X, U), "excesses": (None, X, U)}.get(ask, (X,))
    with pytest.raises(ProblemError, match=r"X: expected rows of 12 numbers, got \(3, 11\)"):
        getattr(system, ask)(*given)


@pytest.mark.parametrize("contacts", [(), ("LF_FOOT", "RH_FOOT")])
def test_second_orders_that_are_no_numbers_leave_nothing_behind(contacts, rng):
    robot = dynamics.load("anymal")
    phase = dynamics.Phase([dynamics.Contact(frame) for frame in contacts])
    system = dynamics.PhasedDynamics(robot, 0.01, phase) if contacts else RobotDynamics(robot, 0.01)
    x, u, nz = state(system, rng, 1.0), rng.normal(size=system.nu), system.n + system.nu
    expected = system.hessian(x, u, np.ones(system.n))
    X, U, weights = np.tile(x, (3, 1)), np.tile(u, (3, 1)), np.ones((3, system.n))
    sizes = (system.n, system.n), (system.n, system.nu), (system.record_size,)
    knots, H = Expansion(*(np.empty((3, *size)) for size in sizes)), np.empty((3, nz, nz))
    system.expand(X, U, knots)
    system.expand_second(X, U, knots)
    weights[1] = np.nan
    system.contract(knots.record, weights, H)
    assert np.isnan(H[1]).any()
    np.testing.assert_array_equal(H[[0, 2]], np.stack([expected, expected]))


@pytest.mark.parametrize("seed", [1, 2, 4, 7])  # trees with branches
def test_what_is_not_finite_once_does_not_stay(seed, rng):
    d = RobotDynamics(random_tree(seed), 0.02)
    x, u, w = state(d, rng, 1.0), rng.normal(size=d.nu), rng.normal(size=d.n)
    before = d.hessian(x, u, w)
    record, H = np.full((1, d.record_size), np.nan), np.empty((1, *before.shape))
    d.contract(record, np.full((1, d.n), np.nan), H)
    assert np.isnan(H).any()
    np.testing.assert_array_equal(d.hessian(x, u, w), before)
