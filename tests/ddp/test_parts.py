"""Parts of the solver that a user replaces: what is asked of them, and that nothing else is."""

from dataclasses import dataclass

import numpy as np
import pytest
from systems import Quadratic, pendulum

import ddp
import problems
from ddp.models.attempt import Attempt
from ddp.models.globalisation import shift
from ddp.models.regularization import ByRatio, Tenfold
from dynamics.steps.function_dynamics import FunctionDynamics

cartpole = problems.find("cartpole/swing-up").build()


class Half:
    """Half of what Gauss-Newton leaves out, in every sweep."""

    exact, failed = False, None

    def __init__(self, limits):
        self._limits = limits

    def restart(self):
        pass

    def iterate(self, point):
        mu = shift(point)
        while mu <= self._limits.max_regularization:
            sweep = point.sweep(0.5, mu)
            if sweep.failed < 0:
                step = point.search(sweep, 1.0)
                return Attempt("half", 0.5, mu, sweep.expected, sweep.gradient, step, sweep.contraction)
            self.failed, mu = sweep.failed, 10.0 * mu
        return None


def test_a_model_of_ones_own_leads_to_the_same_optimum():
    solution = ddp.solve(pendulum(), ddp.DDP(hessian=Half))
    assert {record.hessian for record in solution.history} == {"half"}
    assert {record.blend for record in solution.history} == {0.5}
    assert solution.cost == pytest.approx(ddp.solve(pendulum()).cost, rel=1e-9)


@dataclass(frozen=True)
class Best:
    """The best of eight steps."""

    def __call__(self, line, longest):
        alphas = longest * 0.5 ** np.arange(8.0)
        rolled = line.rolled_out(alphas)
        steps = [line.step(alpha, rolled, lane) for lane, alpha in enumerate(alphas.tolist())]
        best = min((step for step in steps if np.isfinite(step.cost)), key=lambda step: step.cost)
        return best if best.cost < line.cost else line.nowhere()


def test_a_search_of_ones_own_is_asked_for_every_step():
    best, plain = (ddp.solve(cartpole, ddp.DDP(search=search)) for search in (Best(), ddp.Backtracking()))
    assert best.cost <= plain.cost * (1.0 + 1e-9)
    assert [record.step for record in best.history] != [record.step for record in plain.history]
    assert {record.step for record in best.history} <= {0.0, *(0.5 ** np.arange(16.0))}


def test_backtracking_takes_no_step_shorter_than_its_shortest():
    solution = ddp.solve(cartpole, ddp.ILQR(), throw=False)
    assert min(record.step for record in solution.history) < 0.25  # there are such steps to forbid
    solver = ddp.DDP(hessian="gauss-newton", search=ddp.Backtracking(shortest=0.25))
    taken = {record.step for record in ddp.solve(cartpole, solver, throw=False).history}
    assert taken <= {0.0, 0.25, 0.5, 1.0, 2.0, 4.0}


@dataclass(frozen=True)
class Fixed:
    """mu is 1e-3 unless sweeps fail."""

    def raised(self, mu, unit):
        return 10.0 * mu

    def stepped(self, attempt, cost, failed, unit):
        return 1e-3


def test_a_rule_for_mu_of_ones_own_is_followed():
    solution = ddp.solve(pendulum(), ddp.DDP(hessian="gauss-newton", regularization=Fixed()), throw=False)
    assert solution.converged
    assert {record.regularization for record in solution.history[1:]} == {1e-3}


@dataclass(frozen=True)
class Penalties:
    """A quadratic penalty instead of multipliers: `AugmentedLagrangian` in a single round."""

    held: ddp.AugmentedLagrangian

    def relaxed(self, problem, guess):
        relaxation = self.held.relaxed(problem, guess)
        relaxation.lagrangian.penalties[:] = 1e4
        return relaxation

    def minimise(self, descent, again):
        descent.iterate.publish()
        return descent.run(descent.solver.tolerance, descent.solver.max_iterations)

    def certified(self, solution):
        return self.held.certified(solution)


def test_a_way_of_ones_own_to_hold_constraints():
    goal = Quadratic(np.array([100.0, 1.0]), np.array([1.0, 0.0]))
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, 0.1)
    problem = ddp.Problem(
        dynamics, [goal], [goal], np.zeros(1), 10, constraints=[ddp.Inequality(lambda x, u: u[0] - 1.5)]
    )
    solution = ddp.solve(problem, ddp.DDP(constraints=Penalties(ddp.AugmentedLagrangian())))
    assert solution.converged
    assert 1e-6 < solution.violation < 1e-2
    assert ddp.solve(problem).violation <= 1e-8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"search": "backtracking"}, r"search: expected Backtracking\(\.\.\.\), got 'backtracking'"),
        ({"search": ddp.Backtracking}, r"search: expected Backtracking\(\.\.\.\), got"),
        ({"regularization": 1e-3}, r"regularization: expected Tenfold\(\.\.\.\) or ByRatio\(\.\.\.\), got 0.001"),
        ({"constraints": "penalty"}, r"constraints: expected AugmentedLagrangian\(\.\.\.\), got 'penalty'"),
    ],
)
def test_a_part_that_lacks_a_method_is_refused_by_name(options, said):
    with pytest.raises(ddp.ProblemError, match=said):
        ddp.DDP(**options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ddp.Backtracking(share=1.5), "search.share: expected less than 1, got 1.5"),
        (lambda: ddp.Backtracking(shortest=0.0), "search.shortest: expected a positive number"),
        (lambda: Tenfold(factor=-1.0), "regularization.factor: expected a positive number"),
        (lambda: ByRatio(floor=float("nan")), "regularization.floor: expected a positive number"),
    ],
)
def test_options_of_parts_are_checked(make, said):
    with pytest.raises(ddp.ProblemError, match=said):
        make()


def test_endings_are_told_apart_without_reading(tmp_path):
    good, cut = ddp.solve(pendulum()), ddp.solve(pendulum(), ddp.DDP(max_iterations=2), throw=False)
    assert (good.status.ending, cut.status.ending) == (ddp.Ending.CONVERGED, ddp.Ending.ITERATIONS)
    assert good.status.ending.converged
    assert not cut.status.ending.converged
    assert cut.status.startswith("not converged after 2 iterations, the limit of 2 iterations was reached")
    cut.save(tmp_path / "cut.npz")
    loaded = ddp.Solution.load(tmp_path / "cut.npz").status
    assert (loaded, loaded.ending) == (cut.status, ddp.Ending.ITERATIONS)


def test_files_that_do_not_say_their_ending_still_load(tmp_path):
    path = tmp_path / "old.npz"
    arrays = ddp.solve(pendulum()).arrays()
    del arrays["ending"]
    np.savez(path, **arrays)
    assert ddp.Solution.load(path).status.ending is ddp.Ending.CONVERGED
