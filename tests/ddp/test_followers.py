"""Samples that follow others: what is kept where guesses have no cost; and optima of many guesses."""

import numpy as np
import pytest
from many_systems import straight
from thorough import cases

import ddp
from ddp.batch.solves import Solves
from ddp.many import driver
from ddp.many.executors import Here
from ddp.many.plan import Block, responses_of
from ddp.many.rows import NONE, policy_type, row_type
from ddp.many.work import Task, Work, solved
from dynamics import FunctionDynamics
from dynamics.steps import routines
from problems import cartpole, quadrotor


class Domed:
    """A term that is no number beyond x = 2."""

    derivatives = "differences"

    def value(self, x, u):
        with np.errstate(invalid="ignore"):
            return 0.01 * np.sqrt(4.0 - x[0] ** 2) + x @ x


@pytest.mark.parametrize("verify", [None, True, False])
def test_guesses_that_have_no_cost_lose_no_optimum_of_a_neighbour(verify):
    guess = np.full((10, 1), 2.15)  # which leads just to where costs are defined, from 0.05
    moved = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, dt=0.1)
    problem = ddp.Problem(moved, [Domed(), straight()], [], np.array([0.05]), 10, guess=guess)
    X0 = np.array([[0.1], [0.05], [0.15], [0.0]])
    cold = ddp.solve_many(problem, {"x0": X0}, executor=1)
    assert cold.converged.tolist() == [False, True, False, True]
    many = ddp.solve_many(problem, {"x0": X0}, executor=1, start="neighbours", verify=verify)
    assert many.converged.all()
    far = problem.starting_at(np.array([3.0]))  # which has no solution to be followed
    again = ddp.solve_many(far, {"x0": X0}, executor=1, start="neighbours", verify=verify)
    assert again.converged.tolist() == cold.converged.tolist()


def test_the_order_of_what_varies_decides_nothing_on_a_grid_of_samples(problem):
    axes = *[np.linspace(-0.2, 0.2, 5)] * 2, np.linspace(0.9, 1.1, 5)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    over = {"x0": grid[:, :2], "masses": grid[:, 2:]}
    orders = over, {"masses": over["masses"], "x0": over["x0"]}
    one, other = (ddp.solve_many(problem, order, executor=1, start="neighbours") for order in orders)
    assert np.array_equal(one.parent, other.parent)
    assert np.array_equal(one.X, other.X)


def test_an_optimum_that_costs_nothing_is_one_optimum():
    moved = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, dt=0.1)
    resting = ddp.Problem(moved, [lambda x, u: x @ x + u @ u], [], np.zeros(2), 10)
    found = ddp.solve_best(resting, [np.full((10, 1), u) for u in (-1.0, 0.3, 1.0)], executor=1)
    assert [one.guesses for one in found.optima] == [(0, 1, 2)]


class Taken(list):
    """A list of which another thread takes the last item, just after somebody has asked whether there is one."""

    def __bool__(self):
        return True


def test_threads_that_take_the_same_memory_at_once_make_their_own():
    moved = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, dt=0.1)
    problem = ddp.Problem(moved, [straight()], [], np.ones(1), 5)
    work = Work(problem, ddp.DDP(), row_type(problem, ("X",), "float64"), policy_type(problem, 0), spare=Taken())
    block = Block(np.arange(2), np.full(2, NONE))
    done = solved(work, Task([block], {"x0": np.ones((2, 1))}, np.zeros((0, 0)), np.zeros(0, work.policies)))
    assert done.rows["converged"].all()


def test_the_largest_blocks_that_are_ready_are_handed_out_first(monkeypatch):
    tasks, submit = [], Here.submit
    monkeypatch.setattr(driver, "LASTING", 0.0)  # a block a task
    monkeypatch.setattr(Here, "submit", lambda here, *given: tasks.append(given[2].blocks) or submit(here, *given))
    X0 = np.random.default_rng(0).normal(size=(2000, 2))  # more anchors than scouts: cells get ready late
    moved = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, dt=0.1)
    problem = ddp.Problem(moved, [straight()], [lambda x, u: x @ x], np.ones(2), 2)
    assert ddp.solve_many(problem, {"x0": X0}, executor=1, start="neighbours").converged.all()
    sizes = [len(rows) for (rows, _, anchors, scout), *_ in tasks if not (anchors or scout)]
    assert len(sizes) > 40
    assert sizes == sorted(sizes, reverse=True)


class Goal:
    """A square about a target, which may have to be a whole number."""

    derivatives = "differences"

    def __init__(self, target, whole=False):
        self.target, self.whole = np.asarray(target, dtype=float), whole

    def value(self, x, u):
        if self.whole and (self.target % 1.0).any():
            raise KeyError("no such goal")
        return ((x - self.target) ** 2).sum()


def reaching(whole=False):
    """A point that is pushed along one axis, and can do nothing about another."""
    moved = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0], 0.0]), 3, 1, dt=0.1)
    return ddp.Problem(moved, [straight()], [Goal([1.0, 0.0, 0.0], whole)], np.ones(3), 10)


def test_near_are_samples_whose_optimal_motions_are():
    problem, rng = reaching(), np.random.default_rng(0)
    over = {"target": rng.normal(size=(50, 3)), "x0": rng.normal(size=(50, 3))}
    near = responses_of(problem, ddp.solve(problem), over)
    X = [ddp.solve(problem.varying(target=t, x0=x)).X for t, x in zip(*over.values(), strict=True)]
    for i, j in rng.integers(50, size=(20, 2)):  # motions are linear in both
        assert np.linalg.norm(near[i] - near[j]) == pytest.approx(np.linalg.norm(X[i] - X[j]), abs=1e-6)
    assert near.shape[1] == 5  # a target on the axis that nothing moves on counts for nothing


def test_the_signs_of_quaternions_decide_nothing_about_neighbours():
    problem, rng = quadrotor.loop(), np.random.default_rng(0)
    X0 = np.array([problem.dynamics.integrate(problem.x0, 0.2 * dx) for dx in rng.normal(size=(20, 12))])
    turned = X0.copy()
    turned[rng.random(20) < 0.5, 3:7] *= -1.0
    one, other = (ddp.solve_many(problem, {"x0": X}, executor=1, start="neighbours") for X in (X0, turned))
    assert np.array_equal(one.parent, other.parent)
    assert other.consistency() == one.consistency()


def test_neighbours_by_motions_save_iterations(monkeypatch):
    monkeypatch.setattr(routines, "MOST", 0)  # code of a robot's own compiles for seconds
    problem = cartpole.swing_up()
    X0 = problem.x0 + 0.2 * np.random.default_rng(5).normal(size=(200, 4))
    many = ddp.solve_many(problem, {"x0": X0}, executor=1, start="neighbours", verify=False)
    assert many.converged.all()
    assert many.iterations.mean() < 5.5  # 6.3 from samples whose numbers are nearest


def test_neighbours_are_found_where_optima_have_no_derivatives(caplog):
    caplog.set_level("INFO")
    targets = np.random.default_rng(0).integers(5, size=(50, 3))
    many = ddp.solve_many(reaching(whole=True), {"target": targets}, executor=1, start="neighbours")
    assert many.converged.all()
    assert "not by their motions: terminal[0] (Goal): value raised KeyError" in caplog.text


@pytest.mark.parametrize("executor", cases([1, 2], [1]))
def test_equal_samples_are_solved_once_and_are_the_same(executor, monkeypatch):
    problem = cartpole.swing_up(horizon=20)
    X0 = 0.1 * np.random.default_rng(0).normal(size=(5, 4))[np.array([3, 0, 1, 0, 2, 3, 0, 4, 1, 0])]
    loop, count = [ddp.solve(problem.starting_at(x), throw=False) for x in X0], 0

    def alone(self, *given):
        nonlocal count
        count += 1
        return plain(self, *given)

    plain = Solves.alone
    monkeypatch.setattr(Solves, "alone", alone)
    many = ddp.solve_many(problem, {"x0": X0}, executor=executor)
    assert count == (5 if executor == 1 else 0)
    assert np.array_equal(many.X, [one.X for one in loop])
    assert np.array_equal(many.K, [one.K for one in loop])
    assert many.iterations.tolist() == [one.iterations for one in loop]
