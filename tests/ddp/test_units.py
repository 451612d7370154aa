"""Systems whose states and controls are in other units: solves take the same way to the same motion."""

import numpy as np
import pytest

import ddp
from dynamics import FunctionDynamics
from tests.ddp.systems import cartpole_step, pendulum_step

UPRIGHT = np.array([np.pi, 0.0])


def swing_up(states, controls, **changes):
    """A pendulum's swing-up whose states and controls are so many times what they are in SI units."""
    s, c = np.ones(2) * states, controls

    def running(x, u):
        return 0.05 * (x[0] / s[0] - np.pi) ** 2 + 0.005 * (x[1] / s[1]) ** 2 + 0.05 * (u[0] / c) ** 2

    system = FunctionDynamics(lambda x, u: s * pendulum_step(x / s, u / c), 2, 1, dt=0.03)
    end = [lambda x, u: 500.0 * ((x / s - UPRIGHT) @ (x / s - UPRIGHT))]
    return ddp.Problem(system, [running], end, np.zeros(2), 100, **changes)


UNITS = [(2.0**20, 2.0**-20), (2.0**30, 1.0), (2.0**-20, 2.0**20), (np.array([2.0**20, 2.0**-20]), 2.0**-10)]
"""Units of states, of all or of each, and of the control."""


@pytest.mark.parametrize("limit", [np.inf, 6.0], ids=["free", "limited"])
@pytest.mark.parametrize(("states", "controls"), UNITS)
def test_units_of_states_and_controls_change_no_iteration(states, controls, limit):
    plain = ddp.solve(swing_up(1.0, 1.0, control_limits=(-limit, limit)))
    found = ddp.solve(swing_up(states, controls, control_limits=(-limit * controls, limit * controls)))
    assert (found.iterations, found.kind, found.status.ending) == (plain.iterations, plain.kind, plain.status.ending)
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)
    np.testing.assert_allclose(found.X / states, plain.X, atol=1e-5)


@pytest.mark.parametrize(("states", "controls"), UNITS)
def test_batches_take_the_same_way_in_any_units(states, controls):
    begin = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.2]])
    plain = ddp.Batch(swing_up(1.0, 1.0), 3).solve({"x0": begin})
    found = ddp.Batch(swing_up(states, controls), 3).solve({"x0": begin * states})
    assert found.converged.all()
    assert (found.iterations == plain.iterations).all()
    np.testing.assert_allclose(found.cost, plain.cost, rtol=1e-9)


def cart(states, **changes):
    """A cart-pole's swing-up, by full-space steps, whose states are so many times what they are in SI units."""
    upright, weights = np.array([0.0, np.pi, 0.0, 0.0]), np.array([0.1, 0.1, 0.01, 0.01])

    def running(x, u):
        return 0.5 * (weights * (x / states - upright)) @ (x / states - upright) + 0.005 * u[0] ** 2

    system = FunctionDynamics(lambda x, u: states * cartpole_step(x / states, u), 4, 1, dt=0.02)
    end = [lambda x, u: 500.0 * ((x / states - upright) @ (x / states - upright))]
    return ddp.Problem(system, [running], end, np.zeros(4), 100, **changes)


@pytest.mark.parametrize("states", [2.0**10, 2.0**20, 2.0 ** np.array([20.0, 0.0, 20.0, 0.0])], ids=["3", "6", "mixed"])
def test_full_space_steps_need_few_iterations_where_states_are_large(states):
    plain, found = ddp.solve(cart(1.0)), ddp.solve(cart(states))
    assert any(record.full_space for record in found.history)
    assert found.iterations <= 1.5 * plain.iterations
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)
