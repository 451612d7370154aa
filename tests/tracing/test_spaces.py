"""State spaces of one's own: ⊕ and ⊖ are Pinocchio's, and derivatives on them are exact to second order."""

import ctypes

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

import ddp
from ddp import differences
from ddp.interior.parts_in_python import straying
from ddp.tracing.groups import S1, SE2, SE3, SO3, Euclidean, UnitCircle, UnitPlane
from ddp.tracing.spaces import Space
from dynamics import ContinuousDynamics, FunctionDynamics
from dynamics.geometry import lie
from problems.costs import ControlCost, StateCost

JOINTS = {
    SE3(): pin.JointModelFreeFlyer(), SO3(): pin.JointModelSpherical(), UnitPlane(): pin.JointModelPlanar(),
    UnitCircle(): pin.JointModelRUBX(), Euclidean(3): pin.JointModelTranslation(),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1, 0.4, 0.6, 2.0, 3.1])
def test_motions_are_those_of_joints(rng, size):
    model = pin.Model()
    for k, joint in enumerate(JOINTS.values()):
        model.addJoint(k, joint, pin.SE3.Identity(), f"joint{k}")
    space = Space(tuple(JOINTS))
    Q = np.array([pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)) for _ in range(9)])
    V = rng.normal(size=(9, model.nv))
    V *= size / np.linalg.norm(V, axis=1)[:, None]
    moved = np.array([pin.integrate(model, q, v) for q, v in zip(Q, V, strict=True)])
    np.testing.assert_allclose(space.moved("plus", Q, V), moved, rtol=0, atol=1e-14)
    np.testing.assert_allclose(space.moved("minus", moved, Q), V, rtol=0, atol=1e-13)
    for q, v, expected in zip(Q, V, moved, strict=True):
        np.testing.assert_allclose(space.plus(q, v), expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(space.minus(expected, q), v, rtol=0, atol=1e-13)


def test_headings_are_angles_the_short_way_round(rng):
    plane, unit = Space((SE2(),)), Space((UnitPlane(),))
    x, d = np.array([0.3, -0.2, 3.0]), np.array([0.5, 0.1, 1.4])
    y = plane.plus(x, d)
    as_unit = [np.append(z[:2], [np.cos(z[2]), np.sin(z[2])]) for z in (x, y)]
    np.testing.assert_allclose(unit.plus(as_unit[0], d), as_unit[1], atol=1e-15)
    np.testing.assert_allclose(plane.minus(y + np.array([0.0, 0.0, 2.0 * np.pi]), x), d, atol=1e-14)
    np.testing.assert_allclose(Space((S1(),)).minus([3.0], [-3.0]), [6.0 - 2.0 * np.pi], atol=1e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.5, 2.0, 3.1, np.pi - 1e-7])
def test_closing_a_gap_bends_as_the_hessian_of_the_logarithm_says(angle, rng):
    """Which kernels write in closed form, exact at every angle."""
    space = Space((SE3(),))
    closing, gap, weight = space.closing, rng.normal(size=6), rng.normal(size=6)
    gap[3:] *= angle / np.linalg.norm(gap[3:])
    out, expected = np.empty((2, 6, 6)), np.empty((2, 6, 6))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(closing.address)
    function(closing.context, gap.ctypes.data, weight.ctypes.data, out.ctypes.data)
    lie.jlog6(tuple(gap), expected[0])
    lie.log6_hessian(tuple(gap), tuple(weight), expected[1])
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.5, 2.0, 3.1, np.pi])
def test_values_move_as_kernels_do(angle, rng):
    """Floats in Python, traces in registers and kernels are one source: they differ by rounding alone."""
    w = rng.normal(size=3)
    w *= angle / np.linalg.norm(w)
    part, whole, x, xi = SO3(), SE3(), SO3().plus([0.0, 0.0, 0.0, 1.0], [0.3, -1.0, 0.2]), [0.4, -0.3, 0.2, *w]
    turned = lie.integrate_spherical(tuple(x), tuple(w))
    moved = lie.integrate_free_flyer((0.1, 0.2, 0.3, *x), tuple(xi))
    for found in (part.plus(x, list(w)), Space((part,)).moved("plus", np.array([x]), w[None])[0]):
        np.testing.assert_allclose(found, turned, rtol=0, atol=4e-16)
    np.testing.assert_allclose(whole.plus([0.1, 0.2, 0.3, *x], xi)[:3], moved[:3], rtol=0, atol=1e-15)
    far = part.minus(list(turned), x)
    np.testing.assert_allclose(far, lie.difference_spherical(tuple(x), turned), rtol=0, atol=1e-14)


@pytest.mark.parametrize("norm", [1.0 + 1e-6, 1.01, 0.5])
@pytest.mark.parametrize("angle", [1e-9, 0.5, 3.1])
def test_turns_between_attitudes_are_those_of_their_directions(angle, norm, rng):
    axis = rng.normal(size=3)
    d = [*rng.normal(size=3), *(angle * axis / np.linalg.norm(axis))]
    x = SE3().plus(SE3().neutral(), rng.normal(size=6).tolist())
    y = SE3().plus(x, d)
    longer = [*y[:3], *(norm * a for a in y[3:])]
    np.testing.assert_allclose(SE3().minus(longer, x), d, atol=1e-14)
    np.testing.assert_allclose(SO3().minus(x[3:], longer[3:]), [-a for a in d[3:]], atol=1e-14)


def test_steps_that_keep_norms_almost_are_followed_to_where_they_lead():
    def step(x, u):  # whose norm grows by 5e-4 in 1000 of them
        q, (a, b, c) = x[:4], 0.5e-3 * x[4:]
        turned = [q[3] * a + q[1] * c - q[2] * b, q[3] * b + q[2] * a - q[0] * c, q[3] * c + q[0] * b - q[1] * a]
        return np.concatenate([q + np.array([*turned, -q[0] * a - q[1] * b - q[2] * c]), x[4:] + 1e-3 * u])

    system = FunctionDynamics(step, 7, 3, dt=1e-3, state=[SO3(), Euclidean(3)])
    target = np.array([*(np.sin(0.9) / 3.0 * np.array([1.0, 2.0, 2.0])), np.cos(0.9), 0.0, 0.0, 0.0])
    end = [StateCost(system, target, np.repeat([1e4, 1.0], 3))]
    still = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    best = ddp.solve(ddp.Problem(system, [ControlCost(np.zeros(3), 1e-3)], end, still, 1000))
    turn = Rotation.from_quat(best.X[-1, :4]).as_rotvec()
    assert np.linalg.norm(best.X[-1, :4]) > 1.0 + 4e-4
    np.testing.assert_allclose(system.difference(still, best.X[-1])[:3], turn, atol=1e-9)
    assert best.iterations <= 3


SPACES = [[Euclidean(1), SO3(), S1()], SE2(), [SE3(), UnitCircle()], UnitPlane()]
TURN = np.random.default_rng(1).normal(size=(9, 9))


def problem_on(state):
    """A system whose steps turn by what controls and the state say, with a cost and a constraint of attitudes."""
    space = Space(tuple(state) if isinstance(state, list) else (state,))

    def f(x, u):
        rate = TURN[: space.n, :2] @ u + 0.3 * np.sin(TURN[: space.n, : space.nx] @ x)
        return space.plus(x, 0.2 * rate)

    target = space.random(np.random.default_rng(2))

    class Far:
        def value(self, x, u):
            return np.cos(space.minus(x, target)).sum() + (x @ x) * u[0]

    def near(x, u):
        return space.minus(target, x)[0] + u[1] * x[0]

    x0 = space.random(np.random.default_rng(3))
    system = FunctionDynamics(f, space.nx, 2, 0.1, state=state)
    return ddp.Problem(system, [Far()], [], x0, 6, constraints=[ddp.Inequality(near)])


@pytest.mark.parametrize("state", SPACES, ids=str)
def test_derivatives_on_spaces_are_exact_to_second_order(state):
    report = ddp.check_derivatives(problem_on(state))
    assert report.ok, report
    assert all(check.smooth for check in report.checks)


@pytest.mark.parametrize("state", SPACES, ids=str)
def test_open_gaps_close_to_second_order(state, rng):
    system = problem_on(state).dynamics
    n, gap, w = system.n, 0.4 * rng.normal(size=system.n), rng.normal(size=system.n)
    closing = system.closing()
    if closing.address == 0:
        assert system.space.is_flat
        return
    out = np.empty((2, n, n))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(closing.address)
    function(closing.context, gap.ctypes.data, w.ctypes.data, out.ctypes.data)
    x = system.space.random(rng)

    def deviation(y):
        arrived = system.integrate(system.integrate(x, gap), y)
        return system.difference(x, arrived)

    np.testing.assert_allclose(out[0], differences.real_jacobian(deviation, np.zeros(n)), rtol=0, atol=1e-11)
    bend = np.tensordot(w, differences.real_hessian(deviation, np.zeros(n)), axes=1)
    np.testing.assert_allclose(out[1], bend, rtol=0, atol=1e-8)


@pytest.mark.parametrize("state", SPACES, ids=str)
@pytest.mark.parametrize("N", [1, 8, 11])  # registers of eight knots, and of fewer
def test_compiled_steps_in_straight_lines_lead_where_python_says(state, N, rng):
    system = problem_on(state).dynamics
    X = np.array([system.space.random(rng) for _ in range(N + 1)])
    dX, U = rng.normal(size=(N + 1, system.n)), rng.normal(size=(N, 2))
    dX[0] = 0.0
    to, gaps = np.full_like(X, np.nan), np.full_like(dX[:N], np.nan)
    words = np.array([N, system.nx, system.n, 2, *(array.ctypes.data for array in (X, dX, U, to, gaps))])
    made = system.routines(N, True)

    def strayed():
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(made.address("stray"))(made.context, words.ctypes.data, 0, 0)
        return to, gaps

    for found, expected in zip(strayed(), straying(system)(X, dX, U), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(to[0], X[0])
    before = gaps.copy()
    U[0, 0] = np.inf
    strayed()
    assert np.isnan(gaps[0]).all()
    np.testing.assert_array_equal(gaps[1:], before[1:])


INERTIA = np.array([0.02, 0.03, 0.04])


def tumbling(x, u):
    """A satellite: attitude, angular velocity in its own axes."""
    return np.append(x[4:], (u - np.cross(x[4:], INERTIA * x[4:])) / INERTIA)


def test_satellites_tumble_as_their_momentum_says():
    system = ContinuousDynamics(tumbling, 7, 3, 0.01, state=[SO3(), Euclidean(3)], derivatives="differences")
    x0 = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 0.3, -1.0])
    X = system.rollout(x0, np.zeros((100, 3)))
    momentum = [Rotation.from_quat(x[:4]).apply(INERTIA * x[4:]) for x in (X[0], X[-1])]
    np.testing.assert_allclose(momentum[1], momentum[0], rtol=1e-8)


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("rk4", 4)])
def test_steps_on_spaces_have_their_order(integrator, order):
    x0, u = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 0.3, -1.0]), np.array([0.01, -0.02, 0.01])

    def end(steps, integrator=integrator):
        state = [SO3(), Euclidean(3)]
        system = ContinuousDynamics(tumbling, 7, 3, 0.4 / steps, integrator, state=state, derivatives="differences")
        return system.rollout(x0, np.tile(u, (steps, 1)))[-1]

    exact = end(160, "rk4")
    errors = [np.abs(end(steps) - exact).max() for steps in (10, 20)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


def test_a_satellite_turns_the_short_way_to_rest_from_states_imposed_or_not(rng):
    def f(x, u):
        w = x[4:] + 0.05 * (u - np.cross(x[4:], INERTIA * x[4:])) / INERTIA
        return np.append(Space((SO3(),)).plus(x[:4], 0.05 * w), w)

    state = [SO3(), Euclidean(3)]
    system = FunctionDynamics(f, 7, 3, 0.05, state=state)
    goal = np.append(Rotation.from_rotvec([0.5, 2.0, -1.0]).as_quat(), np.zeros(3))

    class Effort:
        def value(self, x, u):
            return 1e3 * (u @ u)

    class Pointed:
        def value(self, x, u):
            return 50.0 * (system.space.minus(x, goal) ** 2).sum()

    problem = ddp.Problem(system, [Effort()], [Pointed()], system.space.neutral(), 40)
    solution = ddp.solve(problem)
    assert solution.converged
    imposed = system.integrate(solution.X, 0.2 * rng.normal(size=(41, 6)))
    other = ddp.solve(problem, guess=(imposed, solution.U))
    assert other.cost == pytest.approx(solution.cost, rel=1e-8)
    assert np.abs(system.difference(other.X[-1], solution.X[-1])).max() < 1e-5


def test_states_and_steps_of_wrong_norm_are_refused():
    state = [SO3(), Euclidean(3)]
    with pytest.raises(ddp.ModelError, match="f: expected numbers 0 to 3 of the next state to keep their norm 1"):
        FunctionDynamics(lambda x, u: x + 0.1 * u, 7, 1, state=state)
    system = ContinuousDynamics(tumbling, 7, 3, 0.01, "euler", state=state)
    with pytest.raises(ddp.ProblemError, match="x0: expected numbers 0 to 3 of norm 1 together, got 0"):
        ddp.Problem(system, [], [], np.zeros(7), 3)
    with pytest.raises(ddp.ProblemError, match=r"state: expected spaces of nx = 7 numbers together, got 4 \+ 2 = 6"):
        FunctionDynamics(lambda x, u: x, 7, 1, state=[SO3(), Euclidean(2)])
    with pytest.raises(ddp.ProblemError, match=r"state\[0\]: expected Euclidean\(n\), S1\(\), SO3\(\)"):
        FunctionDynamics(lambda x, u: x, 7, 1, state=["SO3"])
    with pytest.raises(ddp.ProblemError, match="Euclidean: expected a whole number"):
        Euclidean(0.5)
