"""A solution certifies itself and survives a trip to the disk; what is not one is refused."""

import numpy as np
import pytest
from systems import cartpole, pendulum

import ddp


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


def test_a_solution_that_cannot_be_written_leaves_nothing_behind(solution, tmp_path):
    with pytest.raises(ddp.ProblemError, match="path: cannot write"):
        solution.save(tmp_path / "nowhere" / "swing.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ddp.ProblemError, match="path: cannot write"):
        solution.save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_stationarity_notices_a_trajectory_that_is_not_optimal(solution):
    U = solution.U + 0.1
    X = solution.problem.dynamics.rollout(solution.problem.x0, U)
    moved = ddp.solve(solution.problem, ddp.DDP(max_iterations=1), guess=U, throw=False)
    assert moved.stationarity() > 1e-3
    h, e = 1e-5, np.zeros_like(U)
    e[50] = h
    problem = solution.problem

    def cost(controls):
        return problem.cost(problem.dynamics.rollout(problem.x0, controls), controls)

    assert abs(cost(U + e) - cost(U - e)) / (2 * h) <= ddp.Solution(
        X, U, U, solution.K, 0.0, 0.0, False, "", 0, 0.0, (), problem
    ).stationarity() * (1 + 1e-6)


def test_every_iteration_is_recorded_and_reported():
    seen = []
    solution = ddp.solve(pendulum(), callback=seen.append)
    assert tuple(seen) == solution.history
    assert len(seen) == solution.iterations
    costs = [record.cost for record in seen]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == solution.cost
    assert all(record.seconds > 0.0 for record in seen)
