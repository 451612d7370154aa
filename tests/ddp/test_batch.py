"""Batches of problems: the compiled loop against `solve`, whose decisions it shares but whose rollouts it does not."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from thorough import cases

import ddp
import problems
from ddp.interior.solve import is_small
from ddp.models.regularization import ByRatio
from ddp.systems.structure import is_underactuated
from dynamics import ContinuousDynamics, RobotDynamics
from dynamics.steps import routines
from mayne import SO3, Euclidean, FunctionDynamics
from problems.costs import Quadratic


class Built(dict):
    """Problems by their names, built when first asked for: kernels compile in tests, not while these are read."""

    def __missing__(self, name):
        return self.setdefault(name, problems.find(name).build())


SMALL = Built()


def around(problem, count, spread=0.1, seed=0):
    """States about the initial one."""
    d, rng = problem.dynamics, np.random.default_rng(seed)
    return d.integrate(np.tile(problem.x0, (count, 1)), spread * rng.normal(size=(count, d.n)))


def compare(problem, over, solver=None, batch=None):
    """Check that a batch finds what `solve` finds, where this would hand over by rollouts, and return its solutions."""
    count = len(next(iter(over.values())))
    batch = ddp.Batch(problem, count, solver) if batch is None else batch
    plain, found = ddp.DDP() if solver is None else solver, batch.solve(over)
    rolled = plain.hands_over(problem) and not problem.limited and batch.left < count
    rolled = rolled and not (is_small(problem) and is_underactuated(problem.dynamics))
    alike = replace(plain, step="rollout") if rolled else solver
    for i in range(count):
        sample = problem.varying({name: values[i] for name, values in over.items()})
        alone, own = ddp.solve(sample, alike, throw=False), found.solution(i)
        assert (own.iterations, str(own.status), own.kind) == (alone.iterations, str(alone.status), alone.kind)
        for name in ("X", "U", "K", "cost", "gradient"):
            exact, close = getattr(alone, name), getattr(own, name)
            np.testing.assert_allclose(close, exact, rtol=1e-7, atol=1e-7, err_msg=name)
    return found


@pytest.fixture(autouse=True, params=cases([0, routines.MOST], [0]))
def _code_of_all_robots(monkeypatch, request):
    """Code of a robot's own compiles for seconds: in the suite it is tried below, and in dynamics/test_routines.py."""
    monkeypatch.setattr(routines, "MOST", request.param)


NAMES = "pendulum/swing-up", "cartpole/swing-up", "arm/reach", "quadrotor/loop"
SHARED = [(name, 0) for name in ("arm/reach", "quadrotor/loop")]
OF_THEIR_OWN = [(name, routines.MOST) for name in NAMES]


@pytest.mark.parametrize(("name", "most"), cases([*SHARED, *OF_THEIR_OWN], [*SHARED, *OF_THEIR_OWN[:1]]))
def test_a_batch_takes_the_iterations_of_a_loop_to_the_same_optima(name, most, monkeypatch):
    monkeypatch.setattr(routines, "MOST", most)
    problem = SMALL[name]
    batch = ddp.Batch(problem, 12)
    assert batch.obstacle == ""
    assert compare(problem, {"x0": around(problem, 12)}, batch=batch).converged.all()
    assert batch.left == 0


@pytest.mark.parametrize(
    "solver",
    [
        ddp.ILQR(), ddp.DDP(hessian="exact"), ddp.DDP(max_iterations=3), ddp.DDP(max_iterations=3, last_sweep=False),
        ddp.DDP(tolerance=1e-15), ddp.DDP(regularization=ByRatio()), ddp.DDP(search=ddp.Backtracking(shortest=0.2)),
    ],
)  # fmt: skip
def test_options_of_the_solver_mean_the_same(solver):
    problem = SMALL["pendulum/swing-up"]
    compare(problem, {"x0": around(problem, 5, 0.3)}, solver)


@pytest.mark.parametrize("solver", [None, *(ddp.DDP(tolerance=1e-3, max_iterations=n) for n in (1000, 45, 30))])
def test_full_space_steps_take_the_place_of_short_rollouts_as_in_solve(solver):
    problem = SMALL["cartpole/swing-up"]
    batch = ddp.Batch(problem, 10, solver)
    compare(problem, {"x0": around(problem, 10, 0.5)}, solver, batch)
    assert batch.left == 0
    few = solver is not None and solver.max_iterations == 30
    assert ddp.solve(problem, solver, throw=False).history[-1].full_space == (not few)


def test_hessians_that_are_not_positive_definite_are_followed_by_those_of_solve():
    problem = SMALL["cartpole/swing-up"]
    X0 = around(problem, 10, 1.0)
    batch = ddp.Batch(problem, 10)
    compare(problem, {"x0": X0}, batch=batch)
    assert batch.left == 0
    blends = [record.blend for x in X0 for record in ddp.solve(problem.starting_at(x)).history]
    assert 0.1 * len(blends) < sum(blend < 1.0 for blend in blends) < len(blends)


def test_where_full_space_steps_do_not_serve_problems_are_left_to_solve():
    plain = SMALL["cartpole/swing-up"]
    d = plain.dynamics  # whose pole is turned, and whose cart is free
    problem = replace(plain, dynamics=RobotDynamics(d.robot, d.dt, actuation=np.array([[0.0], [1.0]])))
    batch = ddp.Batch(problem, 10)
    compare(problem, {"x0": around(problem, 10, 0.3)}, batch=batch)
    assert 0 < batch.left < 10


@pytest.mark.parametrize("name", cases(["cartpole/swing-up", "pendulum/swing-up"], ["pendulum/swing-up"]))
def test_steps_of_runge_kutta_are_known_too(name):
    plain = SMALL[name]
    d = plain.dynamics
    problem = replace(plain, dynamics=RobotDynamics(d.robot, d.dt, actuation=d.actuation, integrator="rk4"))
    batch = ddp.Batch(problem, 4)
    assert batch.obstacle == ""
    compare(problem, {"x0": around(problem, 4)}, batch=batch)


def spinning(x, u):
    """Velocities of a rigid body: of its attitude, and Euler's equations."""
    w, J = x[4:], np.array([1.0, 2.0, 3.0])
    return np.concatenate([w, (u - np.cross(w, J * w)) / J])


def balanced(x, u, p):
    """A pendulum that stands at zero."""
    return np.array([x[1], p[0] * np.sin(x[0]) + u[0]])


OWN = {
    "plain": ddp.Problem(
        ContinuousDynamics(balanced, 2, 1, 0.05, parameters=np.array([9.81])), x0=np.array([np.pi, 0.0]), horizon=60,
        running=[lambda x, u: 0.01 * u @ u + 0.1 * (1.0 - np.cos(x[0]))], terminal=[lambda x, u: 50.0 * x @ x],
    ),
    "attitudes": ddp.Problem(
        ContinuousDynamics(spinning, 7, 3, 0.05, state=[SO3(), Euclidean(3)]),
        x0=np.array([0, 0, 0, 1.0, 0, 0, 0]), horizon=40, running=[lambda x, u: 0.01 * u @ u],
        terminal=[lambda x, u: 50.0 * (1.0 - (0.6 * x[0] + 0.8 * x[3]) ** 2) + 5.0 * x[4:] @ x[4:]],
    ),
}  # fmt: skip
OWN["limits"] = replace(OWN["plain"], control_limits=(-6.0, 6.0))
OWN["open gaps"] = OWN["limits"].starting_at(np.array([1.6, 0.0]))  # the states of the guess stay there


@pytest.mark.parametrize("name", OWN)
def test_functions_of_users_are_solved_in_batches(name):
    problem = OWN[name]
    batch = ddp.Batch(problem, 10)
    assert batch.obstacle == ""
    assert compare(problem, {"x0": around(problem, 10, 0.1)}, batch=batch).converged.all()
    assert batch.left < 3  # full-space steps are for `solve`
    assert (ddp.solve(problem, ddp.DDP(step="rollout")).history[0].gap > 0.0) == (name == "open gaps")


@pytest.mark.parametrize("limit", [0.6, 2.0, 30.0])
def test_limits_of_controls_are_kept(limit):
    plain = SMALL["pendulum/swing-up"]
    problem = replace(plain, control_limits=(-limit * 2.0, limit))
    batch = ddp.Batch(problem, 6)
    assert batch.obstacle == ""
    found = compare(problem, {"x0": around(problem, 6, 0.3)}, batch=batch)
    assert found.U.max() <= limit


def test_limits_of_many_controls_are_kept():
    problem = replace(SMALL["arm/reach"], control_limits=(-40.0, 40.0))
    batch = ddp.Batch(problem, 4)
    found = compare(problem, {"x0": around(problem, 4, 0.05)}, batch=batch)
    assert np.abs(found.U).max() == 40.0
    assert batch.left < 4


def test_targets_vary_beside_states():
    pose = SMALL["arm/reach"].number("terminal[0].target")
    targets = np.array([pose] * 5)
    targets[:, :3, 3] += 0.1 * np.random.default_rng(1).normal(size=(5, 3))
    compare(SMALL["arm/reach"], {"x0": around(SMALL["arm/reach"], 5), "terminal[0].target": targets})


@pytest.mark.parametrize("own", [np.ones(2), np.array([[1.0, 0.6], [0.6, 1.0]])])
def test_hessians_that_are_diagonal_in_some_problems_alone_are_whole_in_others(own):
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0] - np.sin(x[0])]), 2, 1, dt=0.1)
    problem = ddp.Problem(dynamics, [Quadratic(np.zeros(2), own, 0.1)], [], np.array([1.0, 0.0]), 10)
    scales = np.linspace(0.5, 2.0, 3)
    for Q in (np.array([[1.0, 0.6], [0.6, 1.0]]), np.ones(2)):
        compare(problem, {"Q": np.multiply.outer(scales, Q)})


@pytest.mark.parametrize("spread", [0.1, 1.0], ids=["near", "far"])
def test_a_problem_s_result_depends_on_no_other(spread):
    """Where states are far apart exact Hessians are often not positive definite, and others are swept beside them."""
    problem = SMALL["cartpole/swing-up"]
    X0, first = around(problem, 21, spread), ddp.Batch(problem, 21)
    expected = first.solve({"x0": X0})
    backwards = ddp.Batch(problem, 21, threads=2).solve({"x0": X0[::-1]})
    alone = ddp.Batch(problem, 1)
    for name in ("X", "U", "K", "cost", "iterations"):
        assert np.array_equal(getattr(expected, name), getattr(backwards, name)[::-1]), name
        assert np.array_equal(getattr(alone.solve({"x0": X0[7:8]}), name)[0], getattr(expected, name)[7]), name
    assert np.array_equal(first.solve({"x0": X0}).X, expected.X)  # nothing is left over of what was solved before


def test_what_the_loop_does_not_know_goes_through_solve_and_is_named():
    obstacles = problems.find("arm/obstacles").build()
    batch = ddp.Batch(obstacles, 2)
    assert batch.obstacle == "constraints"
    compare(obstacles, {"x0": around(obstacles, 2, 0.01)}, batch=batch)
    assert batch.left == 2
    assert ddp.Batch(problems.find("quadruped/trot").build(), 1).obstacle
    assert ddp.Batch(SMALL["arm/reach"], 1, ddp.Newton()).obstacle == "options of the solver"
    plain, d = SMALL["pendulum/swing-up"], SMALL["pendulum/swing-up"].dynamics
    stiff = replace(plain, dynamics=RobotDynamics(d.robot, d.dt, actuation=d.actuation, integrator="sdirk2"))
    assert "of rigid robots without contacts or of traced functions, in explicit" in ddp.Batch(stiff, 1).obstacle


def test_other_endings_are_left_to_solve():
    problem = SMALL["pendulum/swing-up"].with_guess(np.zeros((100, 1)))  # at rest, hanging: a saddle
    batch = ddp.Batch(problem, 2)
    compare(problem, {"x0": np.array([[0.0, 0.0], [0.1, 0.0]])}, batch=batch)


def test_a_solution_is_followed():
    nominal = ddp.solve(SMALL["arm/reach"])
    X0 = around(SMALL["arm/reach"], 6)
    found = ddp.Batch(SMALL["arm/reach"], 6).solve({"x0": X0}, nominal)
    for i, x0 in enumerate(X0):
        alone = ddp.solve(SMALL["arm/reach"].starting_at(x0), guess=nominal)
        assert found.iterations[i] == alone.iterations
        np.testing.assert_allclose(found.X[i], alone.X, atol=1e-8)


def test_a_policy_that_leads_astray_gives_its_states():
    problem = problems.find("quadruped/reorientation").build()
    nominal, X0 = ddp.solve(problem), around(problem, 2, 0.05, 5)  # of which the second one is thrown far off
    found = ddp.Batch(problem, 2).solve({"x0": X0}, nominal)
    alone = [ddp.solve(problem.starting_at(x0), guess=nominal) for x0 in X0]
    assert [one.start.startswith("the states of the guess") for one in alone] == [False, True]
    assert found.iterations.tolist() == [one.iterations for one in alone]
    np.testing.assert_allclose(found.cost, [one.cost for one in alone], rtol=1e-8)


def test_steps_are_those_of_receding_horizons():
    problem, solver = problems.arm.reach(), ddp.DDP(max_iterations=2)
    X0 = around(problem, 3, 0.05)
    batch, plain = ddp.Batch(problem, 3, solver), [ddp.RecedingHorizon(problem, solver) for _ in X0]
    for _ in range(4):
        U = batch.step(X0)
        expected = np.array([horizon.solve(x).U[0] for horizon, x in zip(plain, X0, strict=True)])
        np.testing.assert_allclose(U, expected, rtol=1e-7, atol=1e-7)
        X0 = problem.dynamics.step(X0, U)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_batches_that_are_copied_or_pickled_go_on_as_the_first_would(again):
    problem, X = problems.pendulum.swing_up(horizon=20), 0.1 * np.random.default_rng(0).normal(size=(10, 2))
    batch = ddp.Batch(problem, 10, ddp.DDP(max_iterations=2), threads=2)
    after = problem.dynamics.step(X, batch.step(X))
    other = again(batch)
    own = other.step(after)
    plans = other.X.copy()
    batch.step(X)
    assert np.array_equal(other.X, plans)  # memory of its own
    batch = ddp.Batch(problem, 10, ddp.DDP(max_iterations=2))
    batch.step(X)
    assert np.array_equal(batch.step(after), own)


def speed(x, u):
    return x[1]


def test_steps_within_constraints_begin_with_the_multipliers_of_the_last_ones():
    """They take as many iterations as those of receding horizons, to the same controls, after pickling, too."""
    problem = replace(SMALL["pendulum/swing-up"], constraints=[ddp.Inequality(speed, lower=-4.0, upper=4.0)])
    batch, X = ddp.Batch(problem, 2), around(problem, 2)
    alone = [ddp.RecedingHorizon(problem) for _ in X]
    for k in range(4):
        U = batch.step(X)
        found = [one.solve(x) for one, x in zip(alone, X, strict=True)]
        assert all(np.abs(one.multipliers).max() > 0.0 for one in found)
        np.testing.assert_allclose(U, [one.U[0] for one in found], rtol=1e-9, atol=1e-9)
        assert k == 0 or batch.iterations.tolist() == [one.iterations for one in found]
        X = problem.dynamics.step(X, U)
        batch = pickle.loads(pickle.dumps(batch))
    assert batch.iterations.max() <= 3


@pytest.mark.parametrize("step", ["auto", "rollout"])
def test_steps_within_constraints_are_those_of_receding_horizons_wherever_iterations_end(step):
    bound = ddp.Inequality(speed, lower=-4.0, upper=4.0)
    problem = replace(problems.pendulum.swing_up(horizon=30), constraints=[bound])
    problem, solver = problem.with_guess(ddp.solve(problem).U), ddp.DDP(max_iterations=3, step=step)
    X, alone = around(problem, 2), [ddp.RecedingHorizon(problem, solver) for _ in range(2)]
    batch = ddp.Batch(problem, 2, solver)
    for _ in range(5):
        U = batch.step(X)
        found = [one.solve(x) for one, x in zip(alone, X, strict=True)]
        np.testing.assert_allclose(batch.U, [one.U for one in found], rtol=1e-8, atol=1e-8)
        X = problem.dynamics.step(X, U)


def test_steps_go_on_within_constraints_where_rest_would_cost_less():
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, 0.1)
    costs = [lambda x, u: u @ u], [lambda x, u: x @ x]
    limits = [ddp.Inequality(lambda x, u: u[0], lower=0.5)]
    problem = ddp.Problem(dynamics, *costs, np.zeros(1), 6, constraints=limits)
    batch = ddp.Batch(problem, 1)
    batch.step(problem.x0[None])
    np.testing.assert_allclose(batch._moved_on(problem.x0[None]).U[0], ddp.solve(problem).shift().U, atol=1e-6)


def test_results_depend_on_nothing_that_was_solved_before():
    problem = problems.pendulum.swing_up()
    states, batch = around(problem, 1000, 0.1), ddp.Batch(problem, 1000)
    first = batch.solve({"x0": states})
    order = np.random.default_rng(0).permutation(1000)
    again, others = batch.solve({"x0": states}), batch.solve({"x0": states[order]})
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.X[order], others.X)


def test_a_problem_that_fails_leaves_the_others_alone():
    plain = SMALL["pendulum/swing-up"]
    problem = replace(plain, running=[*plain.running, lambda x, u: 1e-3 * np.sqrt(3.0 - x[0])])
    solver, X0 = ddp.DDP(max_iterations=2), np.array([[0.1, 0.0], [3.5, 0.0], [0.2, 0.0]])
    batch, others, late = (ddp.Batch(problem, count, solver) for count in (3, 2, 1))
    U = batch.step(X0)
    assert list(batch.failed) == [1]
    assert "its cost is nan at knot 0" in batch.failed[1]
    assert np.isnan(U[1])
    assert np.isnan(batch.X[1]).all()
    assert np.array_equal(U[[0, 2]], others.step(X0[[0, 2]]))
    X0[1] = 0.3, 0.0  # it begins anew where it can
    U = batch.step(X0)
    assert batch.failed == {}
    assert np.array_equal(U[[0, 2]], others.step(X0[[0, 2]]))
    assert np.array_equal(U[1:2], late.step(X0[1:2]))
    X0[1] = 3.5, 0.0
    failures = ddp.Batch(problem, 3, solver).solve({"x0": X0}).failures()
    assert [one.sample for one in failures if "its cost is nan at knot 0" in one.status] == [1]


def test_a_state_in_which_no_controls_keep_at_rest_leaves_the_others_alone():
    X0 = around(SMALL["arm/reach"], 11)
    X0[[4, 9]] = 1e200
    found, good = ddp.Batch(SMALL["arm/reach"], 11).solve({"x0": X0}), np.delete(np.arange(11), [4, 9])
    assert [one.sample for one in found.failures() if "the guess diverges" in one.status] == [4, 9]
    assert np.array_equal(found.X[good], ddp.Batch(SMALL["arm/reach"], 9).solve({"x0": X0[good]}).X)


def test_a_state_that_is_lost_for_several_steps_leaves_the_others_alone():
    good, lost = around(SMALL["arm/reach"], 11), np.array([4, 9])
    for problem in (SMALL["arm/reach"], SMALL["arm/reach"].with_guess(None)):
        batch, others = ddp.Batch(problem, 11), ddp.Batch(problem, 9)
        for begin in (False, True, True, False):
            states = good.copy()
            states[lost] = 1e200 if begin else good[lost]
            controls = batch.step(states)
            assert np.array_equal(np.delete(controls, lost, axis=0), others.step(np.delete(states, lost, axis=0)))
            assert np.isfinite(batch.cost[lost]).all() != begin


@pytest.mark.parametrize("cost", ["flat", "beyond rounding"])
def test_doubts_about_success_are_told_as_solve_tells_them(cost):
    """Of a cost that asks nothing, where a loop is left, and of a tolerance below rounding."""
    running = {
        "flat": lambda x, u: 7.0 + 0.0 * u[0],
        "beyond rounding": lambda x, u: np.cosh(u[0] - 0.3) + np.cosh(3.0 * x[0] - 1.0),
    }
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1)
    problem = ddp.Problem(system, [running[cost]], [], [0.2, 0.0], 5)
    found = compare(problem, {"x0": around(problem, 3)}, ddp.DDP(tolerance=1e-300))
    told = {"flat": "perhaps no minimum", "beyond rounding": "to rounding"}[cost]
    assert told in found.solution(0).status
    assert found.converged.all()


def test_a_batch_tells_the_whole_proof_that_constraints_cannot_be_met():
    plain = replace(SMALL["pendulum/swing-up"], horizon=1, guess=None)
    problem = replace(plain, terminal_constraints=[ddp.Equality(lambda x, u: x - np.array([np.pi, 0.0]))])
    found, alone = ddp.Batch(problem, 1).solve({"x0": problem.x0[None]}), ddp.solve(problem, throw=False)
    assert alone.status.ending is ddp.Ending.INFEASIBLE
    assert str(found.solution(0).status) == str(alone.status)


def test_states_from_which_there_is_no_step_leave_the_others_alone():
    def falling(x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - 0.1 * np.sqrt(3.0 - x[0]))])

    problem = ddp.Problem(
        FunctionDynamics(falling, 2, 1, 0.1), [lambda x, u: 0.1 * u[0] ** 2], [lambda x, u: x @ x], np.zeros(2), 10
    )
    batch, others = ddp.Batch(problem, 3), ddp.Batch(problem, 2)
    for lost in (False, True, True, False):
        states = np.array([[0.1, 0.0], [3.5 if lost else 1.0, 0.0], [0.2, 0.0]])
        assert np.array_equal(batch.step(states)[[0, 2]], others.step(states[[0, 2]]))
        assert bool(batch.failed or not np.isfinite(batch.cost[1])) == lost


def test_input_is_named():
    with pytest.raises(ddp.ProblemError, match="problem: expected a Problem, got 3"):
        ddp.Batch(3, 1)
    with pytest.raises(ddp.ProblemError, match="size: expected a whole number of at least 1, got 0"):
        ddp.Batch(SMALL["arm/reach"], 0)
    with pytest.raises(ddp.ProblemError, match=r"solver: expected DDP\(...\), ILQR\(...\) or Newton\(...\), got 'ddp'"):
        ddp.Batch(SMALL["arm/reach"], 1, "ddp")
    with pytest.raises(ddp.ProblemError, match="threads: expected a whole number of at least 1, got -1"):
        ddp.Batch(SMALL["arm/reach"], 1, threads=-1)
    batch = ddp.Batch(SMALL["arm/reach"], 2)
    with pytest.raises(ddp.ProblemError, match="over: expected 2 samples, the size of the batch, got 3"):
        batch.solve({"x0": around(SMALL["arm/reach"], 3)})
    with pytest.raises(ddp.ProblemError, match=r"over, sample 1 of 2: terminal\[0\] .*: weights"):
        batch.solve({"terminal[0].weights": np.multiply.outer([1.0, -1.0], np.ones(6))})
    with pytest.raises(ddp.ProblemError, match=r"states: expected shape \(2, 12\), got \(12,\)"):
        batch.step(SMALL["arm/reach"].x0)
    with pytest.raises(ddp.ProblemError, match=r"guess\.U: expected"):
        batch.solve({"x0": around(SMALL["arm/reach"], 2)}, ddp.solve(SMALL["pendulum/swing-up"]))
    for threads in (1, 2):
        with ddp.Batch(SMALL["arm/reach"], 2, threads=threads) as batch:
            batch.step(around(SMALL["arm/reach"], 2))
        with pytest.raises(ddp.ProblemError, match="batch: expected one that is open, this one was closed"):
            batch.step(around(SMALL["arm/reach"], 2))
