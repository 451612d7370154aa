"""Motions in compositions by the names of their robots, their torques, and the robot's own motion within them."""

import numpy as np
import pytest

import ddp
import mayne
from ddp.errors import ProblemError
from problems.costs import ControlCost

U0 = np.zeros(6)


@pytest.fixture(scope="module")
def plain():
    return mayne.arm.reach("ur5")


def composed(plain, name):
    """The arm's reach with one composition, or two, around the arm."""
    system, still = plain.dynamics, plain.dynamics.nominal_control(plain.x0)
    told = np.tile(still, (plain.horizon, 1))
    smooth = [ControlCost(U0, 1e-6)]
    if name == "rates":
        return mayne.lifted(plain, mayne.augment.rates(system), still, running=smooth)
    if name == "delays":
        return mayne.lifted(plain, mayne.augment.delays(system, 2), np.tile(still, 2), told)
    motors = mayne.lifted(plain, mayne.augment.motors(system, 0.02), still, told)
    if name == "motors":
        return motors
    return mayne.lifted(motors, mayne.augment.rates(motors.dynamics), still, running=smooth)


MEMORY = {
    "rates": ["control elbow_joint"], "motors": ["acting elbow_joint"],
    "delays": ["control elbow_joint now", "control elbow_joint in 1 step"],
    "rates of motors": ["acting elbow_joint", "control elbow_joint"],
}  # fmt: skip


@pytest.mark.parametrize("name", MEMORY)
def test_a_composed_motion_has_the_names_and_the_torques_of_its_robot(plain, name, tmp_path):
    solution = ddp.solve(composed(plain, name))
    own = mayne.unlifted(solution)
    np.testing.assert_array_equal(own.X, solution.X[:, :12])
    again = plain.dynamics.rollout(plain.x0, own.U)
    np.testing.assert_allclose(again, own.X, rtol=0, atol=1e-9)
    np.testing.assert_allclose(solution.tau["elbow_joint"], own.U[:, 2], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(solution.q["elbow_joint"], solution.X[:, 2])
    np.testing.assert_array_equal(solution.v["elbow_joint"], solution.X[:, 8])
    control = "rate of elbow_joint" if "rates" in name else "elbow_joint"
    np.testing.assert_array_equal(solution.u[control], solution.U[:, 2])
    rows = np.genfromtxt(solution.to_csv(tmp_path / "motion.csv"), delimiter=",", names=True, deletechars="")
    assert len(rows.dtype.names) == 1 + solution.X.shape[1] + 6
    for i, kept in enumerate(MEMORY[name]):
        np.testing.assert_array_equal(rows[kept.replace(" ", "_")], solution.X[:, 12 + 6 * i + 2])
    assert solution.to_dict()["s"].keys() >= set(MEMORY[name])
    for refused in (solution.feedback, lambda: solution.predictive(0.02)):
        with pytest.raises(ProblemError, match=r"solution.feedback\('solver'\), or mayne.unlifted\(solution\)"):
            refused()
    solution.policy.export(tmp_path / "gains.npz")
    with np.load(tmp_path / "gains.npz") as file:
        assert file["q"].shape[1] == solution.X.shape[1]


@pytest.mark.parametrize("name", MEMORY)
def test_a_composed_motion_is_simulated_as_its_robots(plain, name):
    solution = ddp.solve(composed(plain, name))
    run = mayne.simulate(solution, mass=1.1)
    assert run.rms < 0.01
    assert np.array_equal(run.X, mayne.simulate(mayne.unlifted(solution), mass=1.1).X)
    lacking = mayne.simulate(solution, mass=1.1, policy="open")
    assert lacking.rms > 3.0 * run.rms


def test_names_of_equal_compositions_one_around_another_differ(plain):
    system = mayne.augment.motors(mayne.augment.motors(plain.dynamics, 0.02), 0.02)
    assert system.named_memory[2] == "acting elbow_joint"
    assert system.named_memory[8] == "acting elbow_joint'"


def test_functions_in_compositions_are_numbered_as_before():
    system = mayne.augment.rates(mayne.FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, 0.1))
    problem = ddp.Problem(system, [lambda x, u: u[0] ** 2], [lambda x, u: x[0] ** 2], [1.0, 0.0], 5)
    solution = ddp.solve(problem)
    assert list(solution.q) == ["x0", "x1"]
    with pytest.raises(ProblemError, match="tau: expected the solution of a robot's problem"):
        _ = solution.tau
    own = mayne.unlifted(solution)
    np.testing.assert_allclose(own.U[:, 0], solution.X[:-1, 1])
    assert mayne.unlifted(own) is own


def test_what_is_beside_a_state_at_first_is_asked_for_by_name_and_not_where_there_is_nothing(plain):
    with pytest.raises(ProblemError, match=r"s0: expected 12 numbers, .* control shoulder_pan_joint now, .*; got none"):
        mayne.lifted(plain, mayne.augment.delays(plain.dynamics, 2))
    scaled = mayne.Augmented(plain.dynamics, lambda x, s, r: 2.0 * r)
    assert np.array_equal(mayne.lifted(plain, scaled).x0, plain.x0)
