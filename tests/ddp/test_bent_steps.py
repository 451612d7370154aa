"""Full-space steps along which second orders open gaps and costs rise, though they lead to the minimum.

The effect is that of Maratos (1978), who found it in sequential quadratic programming.
"""

import numpy as np
import pytest

import ddp
from dynamics import FunctionDynamics
from problems import pendulum

BENT = FunctionDynamics(lambda x, u: x - 2.0 * u**2, 1, 1, dt=1.0)


@pytest.mark.parametrize("u0", [0.1, 0.03, 0.01])
def test_steps_whose_gaps_cost_more_than_they_gain_are_taken_in_full(u0):
    """x = -2 u² costs x + x²/2 + 5/2 u² + 1, which is 1 + u²/2 + 2 u⁴ of controls: the minimum is at u = 0.

    Newton's step from u0 leads there, to x = 2 u0²: the cost rises from 1 + u0²/2 to 1 + 2 u0², and all of that is gap.
    """
    cost, end = lambda x, u: 2.5 * u[0] ** 2, lambda x, u: 1.0 + x[0] + 0.5 * x[0] ** 2
    problem = ddp.Problem(BENT, [cost], [end], np.zeros(1), 1, guess=np.full((1, 1), u0))
    solution = ddp.solve(problem, ddp.DDP(step="linear"))
    assert [record.step for record in solution.history] == [1.0] * solution.iterations
    assert max(record.cost for record in solution.history) > 1.0 + 0.5 * u0**2
    assert solution.iterations <= 5
    assert abs(solution.U[0, 0]) < 1e-12
    assert solution.cost == pytest.approx(1.0, abs=1e-15)
    assert solution.gap() == 0.0
    assert {record.penalty for record in solution.history} == {0.0}  # nothing has a barrier


def test_saddles_are_left_in_few_full_space_steps():
    """States from which these come near a saddle, whose steps along negative curvature bend the most."""
    problem = pendulum.swing_up()
    X0 = problem.x0 + 0.3 * np.random.default_rng(0).normal(size=(256, 2))
    for x0 in X0[[45, 143, 187, 190, 193]]:
        start = problem.starting_at(x0)
        linear, rolled = (ddp.solve(start, ddp.DDP(step=step)) for step in ("linear", "rollout"))
        assert linear.iterations <= 27
        assert linear.cost == pytest.approx(rolled.cost, rel=1e-10)
