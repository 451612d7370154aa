"""A function of a term that is replaced after its problem was made is solved, or refused by the name of the term."""

import numpy as np
import pytest

import ddp
from dynamics import FunctionDynamics


class Near:
    """Squared distance from a place, and effort."""

    place = 0.0

    def value(self, x, u):
        return (x[0] - self.place) ** 2 + 0.1 * u[0] ** 2


def far(x, u):
    return 5.0 * (x[0] - 1.0) ** 2 + 0.1 * u[0] ** 2


def problem_of(term):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 0.1)
    return ddp.Problem(system, [term], [lambda x, u: x @ x], np.array([0.5, 0.0]), 10)


def with_gradient(term):
    """Replace its function, and give it a gradient, too."""
    term.value = far
    term.gradient = lambda x, u: np.array([10.0 * (x[0] - 1.0), 0.0, 0.2 * u[0]])


def of_class(term):
    type(term).value = lambda self, x, u: far(x, u)


def of_object(term):
    term.value = far


@pytest.mark.parametrize("replace", [of_object, of_class, with_gradient])
def test_the_value_that_a_term_has_now_is_minimised(replace):
    term = type("Own", (Near,), {})()
    problem = problem_of(term)
    controller, batch = ddp.RecedingHorizon(problem), ddp.Batch(problem, 1)
    before = ddp.solve(problem).cost
    replace(term)
    wanted = ddp.solve(problem_of(far))
    batch.step(problem.x0[None])
    found = [ddp.solve(problem), ddp.solve(problem.starting_at(problem.x0)), controller.solve(problem.x0)]
    for U in (*(solution.U for solution in found), batch.U[0]):
        np.testing.assert_allclose(U, wanted.U, atol=1e-6)
    assert wanted.cost == pytest.approx(problem.cost(wanted.X, wanted.U))
    assert abs(wanted.cost - before) > 0.1


def test_values_that_are_no_cost_any_more_are_told_by_the_name_of_their_term():
    term = Near()
    problem = problem_of(term)
    for value, words in ((3, "'int' object is not callable"), (lambda x, u: x, "got an array of shape"),
                         (lambda x: 0.0, "expected a function of x and u")):  # fmt: skip
        term.value = value
        with pytest.raises(ddp.ProblemError, match=rf"running\[0\] \(Near\): value.*{words}"):
            ddp.solve(problem)
    del term.value
    assert ddp.solve(problem).converged
