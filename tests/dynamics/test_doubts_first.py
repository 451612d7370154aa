"""Doubts about a problem are told whoever solves it, of knots that it has, before anything compiles for that."""

import logging

import numpy as np
import pytest

import ddp
import dynamics
from problems import gaits, pendulum
from problems.costs import ControlCost, StateCost

SOLVED_BY = {
    "solve": lambda problem: ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False),
    "a receding horizon": ddp.RecedingHorizon,
    "a batch": lambda problem: ddp.Batch(problem, 2),
    "many solves": lambda problem: ddp.solve_many(problem, {"x0": problem.x0[None]}, ddp.DDP(max_iterations=1)),
}


@pytest.mark.parametrize("solves", SOLVED_BY.values(), ids=SOLVED_BY)
def test_steps_in_milliseconds_are_doubted_whoever_solves(solves, caplog, monkeypatch):
    monkeypatch.setattr("ddp.doubts._told", set())
    system = dynamics.RobotDynamics(pendulum.swing_up().dynamics.robot, 10.0)
    x0 = np.zeros(2)
    costs = [ControlCost(np.zeros(1), 1e-3), StateCost(system, x0, np.ones(2))]
    with caplog.at_level(logging.WARNING, "mayne"):
        solves(ddp.Problem(system, costs, [], x0, 5))
    assert any("dt: steps of 10 s are long" in told for told in caplog.messages)


def test_doubts_are_told_before_controls_that_stand_are_found(monkeypatch):
    problem = gaits.stand("anymal")
    x0 = problem.x0.copy()
    x0[7] = 80.0

    def stands(*_):
        raise AssertionError("kernels compile for that")

    doubts = iter(problem.dynamics.doubts(problem.starting_at(x0)))
    monkeypatch.setattr(type(problem.dynamics), "nominal_control", stands)
    assert "are these degrees?" in next(doubts)
    with pytest.raises(AssertionError, match="kernels compile"):
        list(doubts)


@pytest.mark.parametrize("horizon", [3, 8, 12])
def test_feet_are_doubted_at_knots_that_a_horizon_has(horizon):
    robot, names = dynamics.load("anymal"), ("LF_FOOT", "RF_FOOT")
    places = [dynamics.frame_placement(robot, robot.q0, name)[:3, 3] for name in names]
    feet = [dynamics.Contact(name, target=place) for name, place in zip(names, places, strict=True)]
    phases = [dynamics.Phase(feet, 5, held=True), dynamics.Phase(feet[:1], 5, held=True)]
    system = dynamics.PhasedDynamics(robot, 0.01, phases)
    X = np.tile(np.concatenate([robot.q0, np.zeros(robot.nv)]), (horizon + 1, 1))
    moved, last = X.copy(), min(horizon, 9)
    moved[last:, 0] += 0.1
    for states, told in ((X, []), (moved, [f"FOOT at knot {last} is 100 mm from where it is held"])):
        problem = ddp.Problem(system, [], [], X[0], horizon, guess=(states, np.zeros((horizon, system.nu))))
        found = [one for one in system.doubts(problem) if one.startswith("guess: ")]
        assert len(found) == len(told)
        assert all(words in one for words, one in zip(told, found, strict=True))
