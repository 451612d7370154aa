"""A solution certifies itself and survives a trip to the disk; what is not one is refused."""

from dataclasses import replace

import numpy as np
import pytest
from systems import Quadratic, cartpole, pendulum

import ddp
from dynamics.steps.function_dynamics import FunctionDynamics


@pytest.fixture(scope="module")
def solution() -> ddp.Solution:
    return ddp.solve(pendulum())


def test_a_solution_reads_as_a_sentence(solution):
    assert str(solution).startswith(
        f"converged after {solution.iterations} iterations: cost 2.9008, gradient "
    )
    assert "iteration" in solution.status


def test_a_loaded_solution_is_the_saved_one(solution, tmp_path):
    path = tmp_path / "swing.npz"
    solution.save(path)
    loaded = ddp.Solution.load(path, solution.problem)
    for name in ("X", "U", "k", "K"):
        assert np.array_equal(getattr(loaded, name), getattr(solution, name))
    for name in ("cost", "gradient", "converged", "status", "iterations", "seconds", "history"):
        assert getattr(loaded, name) == getattr(solution, name)
    assert loaded.stationarity() == solution.stationarity()
    assert ddp.solve(pendulum(), guess=ddp.Solution.load(path)).iterations == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["swing.npz"]


def test_a_solution_without_its_problem_cannot_certify_itself(solution, tmp_path):
    solution.save(tmp_path / "swing.npz")
    with pytest.raises(ddp.ProblemError, match="problem: stationarity needs one"):
        ddp.Solution.load(tmp_path / "swing.npz").stationarity()


def test_a_solution_of_another_problem_is_refused(solution, tmp_path):
    path = tmp_path / "swing.npz"
    solution.save(path)
    with pytest.raises(ddp.ProblemError, match="of another problem: expected X of shape"):
        ddp.Solution.load(path, cartpole())
    with pytest.raises(ddp.ProblemError, match="of another problem: it starts at"):
        ddp.Solution.load(path, pendulum(x0=(1.0, 0.0)))
    problem = solution.problem
    heavier = ddp.Problem(
        problem.dynamics, [*problem.running] * 2, problem.terminal, problem.x0, problem.horizon
    )
    with pytest.raises(ddp.ProblemError, match="of another problem: its trajectory costs"):
        ddp.Solution.load(path, heavier)
    with pytest.raises(ddp.ProblemError, match=r"violates constraints or limits by 5\.45 here, 0 there"):
        ddp.Solution.load(path, replace(problem, control_limits=(-1.0, 1.0)))


def test_a_solution_of_looser_constraints_is_refused(tmp_path):
    loose, tight = (replace(pendulum(), constraints=[ddp.Inequality(lambda x, u: x[1], upper=u)]) for u in (4.0, 3.5))
    ddp.solve(loose).save(tmp_path / "swing.npz")
    assert ddp.Solution.load(tmp_path / "swing.npz", loose).converged
    with pytest.raises(ddp.ProblemError, match=r"violates constraints or limits by 0\.5 here, "):
        ddp.Solution.load(tmp_path / "swing.npz", tight)
    with pytest.raises(ddp.ProblemError, match="problem: expected the one solved, multipliers of"):
        ddp.solve(pendulum()).attached(loose)


@pytest.mark.parametrize("step", ["auto", "linear", "rollout"])
def test_constraints_of_a_solve_that_cannot_begin_are_known(step, tmp_path):
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + u, 1, 1), [lambda x, u: -np.log(u[0])], [lambda x, u: x @ x], [9.0], 5,
        constraints=[ddp.Inequality(lambda x, u: x[0], upper=5.0)],
    )  # fmt: skip
    solution = ddp.solve(problem, ddp.DDP(step=step), throw=False)
    assert solution.status.ending is ddp.Ending.NO_START
    assert solution.violation == np.inf
    assert solution.residuals()[0].worst == 4.0
    solution.save(tmp_path / "none.npz")
    assert ddp.Solution.load(tmp_path / "none.npz", problem).status == solution.status
    many = ddp.solve_many(problem, {"x0": [[9.0], [1.0]]}, ddp.DDP(step=step), executor=1)
    assert [failure.status for failure in many.failures()] == [solution.status] * 2


@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1.0])
def test_a_solution_of_another_problem_is_refused_in_any_unit_of_the_cost(weight, tmp_path):
    plain, path = pendulum(), tmp_path / "swing.npz"

    def problem(factor):
        terms = [Quadratic(factor * weight * np.ones(3), np.array([0.3, 0.0, 0.1]))]
        return ddp.Problem(plain.dynamics, terms, [], plain.x0, 10)

    ddp.solve(problem(1.0)).save(path)
    assert ddp.Solution.load(path, problem(1.0)).converged
    assert ddp.Solution.load(path, problem(1.0 + 1e-9)).converged
    with pytest.raises(ddp.ProblemError, match="of another problem: its trajectory costs"):
        ddp.Solution.load(path, problem(1.001))


def test_a_motion_of_another_system_is_refused_though_it_costs_as_much(solution, tmp_path):
    plain = solution.problem
    other = replace(plain, dynamics=FunctionDynamics(lambda x, u: x + 0.03 * u, 2, 1, dt=plain.dynamics.dt))
    solution.save(tmp_path / "swing.npz")
    assert ddp.Solution.load(tmp_path / "swing.npz", plain).converged
    with pytest.raises(ddp.ProblemError, match=r"states do not follow from its controls here, that of knot \d+ by "):
        ddp.Solution.load(tmp_path / "swing.npz", other)


def test_the_policy_is_the_control_on_the_way_and_feeds_back_beside_it(solution):
    dt, k = solution.problem.dynamics.dt, 37
    beside = solution.X[k] + [0.01, -0.02]
    assert np.array_equal(solution.policy(k * dt, solution.X[k]), solution.U[k])
    on_the_way = solution.X[k] + 0.9 * (solution.X[k + 1] - solution.X[k])
    assert solution.policy((k + 0.9) * dt, on_the_way) == pytest.approx(solution.U[k], abs=1e-12)
    ending = np.nextafter(solution.policy.duration, 0.0)  # a clock that counts steps gets there
    assert solution.policy(ending, solution.X[-1]) == pytest.approx(solution.U[-1])
    assert solution.policy(k * dt, beside) == pytest.approx(solution.U[k] + solution.K[k] @ [0.01, -0.02])


@pytest.mark.parametrize(("t", "x", "words"), [
    (-0.01, [0.0, 0.0], "t: expected 0 <= t < 3 s"),
    (3.0, [0.0, 0.0], "t: expected 0 <= t < 3 s, the horizon, got 3"),
    (np.nan, [0.0, 0.0], "t: "),
    (0.0, [0.0], "x: expected shape"),
])  # fmt: skip
def test_a_policy_asked_for_elsewhere_is_an_error(solution, t, x, words):
    with pytest.raises(ddp.ProblemError, match=words):
        solution.policy(t, x)


def test_a_shifted_solution_goes_on_where_it_was(solution):
    later = solution.shift(3)
    assert np.array_equal(later.X[:-3], solution.X[3:])
    assert np.array_equal(later.U[:-3], solution.U[3:])
    system = later.problem.dynamics
    assert np.abs(system.step(later.X[:-1], later.U) - later.X[1:]).max() < 1e-12
    assert later.cost == pytest.approx(later.problem.cost(later.X, later.U))
    assert np.array_equal(later.problem.x0, solution.X[3])
    again = ddp.solve(later.problem, guess=later)
    assert again.converged
    assert again.iterations < solution.iterations
    with pytest.raises(ddp.ProblemError, match="steps: expected at most 100"):
        solution.shift(101)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text", "other", "version"])
def test_a_file_that_is_no_solution_is_refused(solution, tmp_path, damage):
    path = tmp_path / "swing.npz"
    solution.save(path)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        np.savez(path, X=solution.X)
    elif damage == "version":
        np.savez(path, format=np.array("mayne solution"), version=np.array(99))
    else:
        path.write_bytes({"empty": b"", "truncated": content[: len(content) // 2], "text": b"hello"}[damage])
    with pytest.raises(ddp.ProblemError, match=r"path: .*swing.npz"):
        ddp.Solution.load(path)


def changed(path, **arrays) -> None:
    """A copy of the file with other arrays in it."""
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    np.savez(path, **(content | arrays))


NAN = np.full((101, 2), np.nan)


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ({"cost": np.zeros(3)}, "cost"),
        ({"version": np.arange(3)}, "version"),
        ({"iterations": np.array("many")}, "iterations"),
        ({"X": np.array("somewhere")}, "X"),
        ({"X": np.zeros(101, complex)}, "X"),
        ({"history_step": np.ones(2)}, "history_step"),
        ({"history_step": np.ones(0)}, "the history of"),
        ({"history_cost": np.array(1.0)}, "history_cost"),
        ({"X": NAN}, "X"),
        ({"K": np.full((100, 1, 2), np.nan)}, "K"),
        ({"cost": np.array(np.nan)}, "cost"),
        ({"gradient": np.array(np.nan)}, "gradient"),
        ({"version": np.array(-5)}, "version -5 of"),
        ({"iterations": np.array(10**12)}, "iterations"),
        ({"iterations": np.array(-1)}, "iterations"),
        ({"U": np.zeros((3, 1))}, "U"),
    ],
)
def test_a_file_whose_content_cannot_be_a_solution_is_refused(solution, tmp_path, arrays, named):
    path = tmp_path / "swing.npz"
    solution.save(path)
    changed(path, **arrays)
    for problem in (None, solution.problem):
        with pytest.raises(ddp.ProblemError, match=rf"path: .*swing.npz .*{named}"):
            ddp.Solution.load(path, problem)


def test_a_solution_that_went_wrong_can_be_kept(tmp_path):
    plain = pendulum()
    steep = FunctionDynamics(lambda x, u: 1e40 * x + 1.0 + u, 2, 1)
    failed = ddp.solve(ddp.Problem(steep, plain.running, plain.terminal, np.ones(2), 20), throw=False)
    failed.save(tmp_path / "failed.npz")
    loaded = ddp.Solution.load(tmp_path / "failed.npz", failed.problem)
    assert np.array_equal(loaded.X, failed.X, equal_nan=True)
    assert loaded.status == failed.status


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, path: s.save(path.with_suffix(".CSV")), "path: expected a name that ends with .npz, got"),
        (lambda s, path: s.save(None), "path: expected the path of a file, got None"),
        (lambda s, path: ddp.Solution.load(None), "path: expected the path of a file, got None"),
        (lambda s, path: ddp.Solution.load(path, "pendulum"), "problem: expected a Problem, got str"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(solution, tmp_path, call, message):
    solution.save(tmp_path / "swing.npz")
    with pytest.raises(ddp.ProblemError, match=message):
        call(solution, tmp_path / "swing.npz")


def test_a_solution_that_cannot_be_written_leaves_nothing_behind(solution, tmp_path):
    with pytest.raises(ddp.ProblemError, match="path: cannot write"):
        solution.save(tmp_path / "nowhere" / "swing.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ddp.ProblemError, match="path: cannot write"):
        solution.save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def along(problem: ddp.Problem, U: np.ndarray) -> ddp.Solution:
    """A solution that is none: controls and where they lead."""
    X = problem.dynamics.rollout(problem.x0, U)
    return ddp.Solution(X, U, U, np.zeros((len(U), 1, 2)), 0.0, 0.0, False, "", 0, 0.0, (), problem)


def test_stationarity_is_the_largest_slope_of_the_cost(solution):
    problem, U = solution.problem, solution.U + 0.1

    def cost(controls):
        return problem.cost(problem.dynamics.rollout(problem.x0, controls), controls)

    h = 1e-5 * np.eye(len(U))[:, :, None]
    slopes = [(cost(U + step) - cost(U - step)) / 2e-5 for step in h]
    assert along(problem, U).stationarity() == pytest.approx(np.abs(slopes).max(), rel=1e-6)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_stationarity_of_a_gradient_that_is_no_number_is_none(solution, broken):
    class Broken(Quadratic):
        def expand(self, X, U, weight, exact, l, lz, lzz):
            lz[U[:, 0] == 3.0, 2] = broken
            lz[U[:, 0] == 3.0, 0] = -broken

    plain, U = solution.problem, np.zeros((100, 1))
    U[40] = 3.0
    term = Broken(np.ones(3), np.zeros(3))
    problem = ddp.Problem(plain.dynamics, [*plain.running, term], plain.terminal, plain.x0, 100)
    assert not along(problem, U).stationarity() < np.inf


def test_a_solution_is_shown_in_a_line(solution):
    assert len(repr(solution)) < 300
    assert f"status={solution.status!r}" in repr(solution)


def test_every_iteration_is_recorded_and_reported():
    seen = []
    solution = ddp.solve(pendulum(), ddp.DDP(step="rollout"), callback=seen.append)  # whose costs fall each time
    assert tuple(seen) == solution.history
    assert len(seen) == solution.iterations
    costs = [record.cost for record in seen]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == solution.cost
    assert all(record.seconds > 0.0 for record in seen)


def test_the_policy_of_a_long_horizon_finds_every_knot():
    dynamics = FunctionDynamics(lambda x, u: x + u, 1, 1, 0.01)
    problem = ddp.Problem(dynamics, [Quadratic(np.ones(2), np.zeros(2))], [], [0.0], 10_000)
    solution = ddp.solve(problem)
    solution.U[:, 0] = solution.X[:-1, 0] = np.arange(10_000)
    found = [solution.policy(0.01 * k, solution.X[k])[0] for k in range(0, 10_000, 7)]
    assert np.array_equal(found, solution.U[::7, 0])
