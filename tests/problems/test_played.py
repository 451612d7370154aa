"""Simulated motions hand on their numbers as solutions do: by name, as tables, and drawn beside the plan."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import ddp
import problems
import viz
from ddp.errors import ProblemError
from dynamics import Assembly, Circle, Material, RobotDynamics, Rod, Tendon
from problems import arm
from problems.costs import ControlCost
from problems.play.receding import simulate_receding
from viz.signals import signals_of


@pytest.fixture(scope="module")
def reach():
    plain = arm.reach("ur5", horizon=20)
    limits = np.tile([[150.0] * 6], (20, 1))
    limits[10:] = 140.0
    return ddp.solve(ddp.Problem(
        plain.dynamics, plain.running, plain.terminal, plain.x0, 20, control_limits=(-limits, limits)
    ))  # fmt: skip


@pytest.fixture(scope="module")
def run(reach):
    return problems.simulate(reach, rate=200.0)


def test_a_simulated_motion_has_its_numbers_by_name_and_as_a_table(reach, run, tmp_path):
    assert np.array_equal(run.q["elbow_joint"], run.X[:, 2])
    assert np.array_equal(run.v["elbow_joint"], run.X[:, 8])
    assert np.array_equal(run.u["elbow_joint"], run.U[:, 2])
    header, *rows = csv.reader(run.to_csv(tmp_path / "run.csv").read_text().splitlines())
    planned, *_ = csv.reader(reach.to_csv(tmp_path / "plan.csv").read_text().splitlines())
    assert header == planned
    assert np.array_equal([[float(number) for number in row[:13]] for row in rows], np.column_stack([run.t, run.X]))
    assert np.array_equal([[float(number) for number in row[13:]] for row in rows[:-1]], run.U)
    assert rows[-1][13:] == [""] * 6
    assert np.array_equal(run.tau["elbow_joint"], run.U[:, 2])
    told = run.to_dict()
    assert told["rms"] == run.rms
    assert told["fell"] is False
    assert all(np.array_equal(told[name], getattr(run, name)) for name in ("plan", "error"))
    for what, part in {"time": run.t, "q": run.q, "v": run.v, "u": run.u}.items():
        assert np.array_equal(np.array([*told[what].values()]).T if what != "time" else told[what], np.asarray(part))
    frame = run.to_pandas()
    assert np.array_equal(frame.index, run.t)
    assert np.array_equal(frame["rate of elbow_joint"], run.X[:, 8])
    with pytest.raises(ProblemError, match=r"path: expected a file whose name ends with \.csv, got run\.txt"):
        run.to_csv("run.txt")


def test_limits_of_a_simulated_motion_are_those_of_the_knot_at_each_time(reach, run):
    low, high = run.limits
    assert low.shape == high.shape == run.U.shape
    assert np.array_equal(low, -high)
    half = reach.t[10]
    assert (high[run.t[:-1] < half - 1e-9] == 150.0).all()
    assert (high[run.t[:-1] > half - 1e-9] == 140.0).all()
    assert 0 < (high == 150.0).all(axis=1).sum() < len(high)


def test_a_simulated_motion_is_drawn_beside_its_plan(reach, run, tmp_path):
    viz.plot_solution({"plan": reach, "in MuJoCo": run}, tmp_path / "both.svg")
    drawn = (tmp_path / "both.svg").read_text()
    assert all(f"<!-- {label} -->" in drawn for label in ("plan", "in MuJoCo", "position [rad]", "control [N m]"))
    assert "gain on position" not in drawn  # of a run, there are none
    applied = signals_of(run)["control"]
    assert applied.names == tuple(run.u)
    assert np.array_equal(np.asarray(applied.values), run.U)
    assert np.array_equal(applied.high, run.limits[1])


@pytest.mark.parametrize(("draw", "words"), [
    (viz.plot_forces, "forces: got a motion from simulate or .*, which keep no record of which forces act"),
    (viz.plot_schedule, "schedule: got a motion from simulate or .*, which keep no record of who stands when"),
])  # fmt: skip
def test_contacts_of_a_simulated_motion_are_not_known(run, tmp_path, draw, words):
    with pytest.raises(ProblemError, match=words):
        draw(run, tmp_path / "run.svg")


def test_a_receding_horizon_is_drawn_by_its_own_numbers(tmp_path):
    problem = arm.reach("ur5", horizon=10)
    ran = simulate_receding(ddp.RecedingHorizon(problem), duration=0.05, rate=200.0)
    viz.plot_solution(ran, tmp_path / "run.svg")
    assert "<!-- elbow_joint -->" in (tmp_path / "run.svg").read_text()
    assert np.isinf(ran.play.limits[1]).all()
    assert len(ran.to_pandas()) == len(ran.play.t)
    assert ran.to_csv(tmp_path / "run.csv").read_text() == ran.play.to_csv(tmp_path / "play.csv").read_text()


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_limits_under_a_receding_horizon_are_those_of_the_plan_that_each_control_was_asked_of(delay):
    problem = arm.reach("ur5", horizon=10)
    most = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
    limited = replace(problem, control_limits=(-most, most))

    def vary(t):
        return {"control_limits": np.stack([-most, most]) * (1.0 if t < 0.03 else 0.9)}

    with ddp.RecedingHorizon(limited) as planner:
        ran = simulate_receding(planner, duration=0.06, every=0.01, rate=200.0, vary=vary, delay=delay)
    low, high = ran.play.limits
    assert low.shape == high.shape == ran.play.U.shape
    assert np.array_equal(low, -high)
    later = ran.play.t[:-1] > 0.03 + delay - 1e-9
    assert np.array_equal(high, np.where(later[:, None], 0.9 * most, most))
    drawn = signals_of(ran)["control"]
    assert np.array_equal(drawn.high, high)


def test_rods_are_refused_with_the_loop_that_steps_them():
    rod = Rod("trunk", 0.3, Circle(0.02), Material(1e6, 0.5, 1000.0, 1e4), bending=0, gauss=1)
    tendon = Tendon("cable", lambda x: (0.0, 0.01))
    system = RobotDynamics(Assembly("trunk").rod(rod, tendons=[tendon]).robot(), 0.02, integrator="sdirk2")
    problem = ddp.Problem(system, [ControlCost(np.zeros(1), 1.0)], [], np.zeros(system.nx), 3)
    with pytest.raises(ddp.ProblemError, match=r"rigid bodies, got trunk, which has rods; .* system\.step"):
        problems.simulate(ddp.solve(problem))


def test_joints_of_a_robot_whose_base_is_fixed_are_pushed_by_velocities(reach, run):
    push = np.array([0.3, 0.2, 0.0, -0.1, 0.0, 0.5])
    pushed, at = problems.simulate(reach, rate=200.0, push=push), len(run.U) // 2
    assert np.array_equal(pushed.X[:at], run.X[:at])
    np.testing.assert_allclose(pushed.X[at] - run.X[at], np.append(np.zeros(6), push), rtol=0, atol=1e-12)
    assert pushed.rms < 0.8 * problems.simulate(reach, rate=200.0, push=push, policy="open").rms
    planner = ddp.RecedingHorizon(arm.reach("ur5", horizon=6))
    free, late = (simulate_receding(planner, 0.05, rate=200.0, pushes=pushes).play for pushes in (None, {0.025: push}))
    np.testing.assert_allclose(late.X[5] - free.X[5], np.append(np.zeros(6), push), rtol=0, atol=1e-12)
    for told, ask in (
        ("push: expected 6 velocities, of all joints", lambda: problems.simulate(reach, push=0.3)),
        (r"pushes\[0.02\]: expected 6 velocities", lambda: simulate_receding(planner, 0.05, pushes={0.02: [1.0, 0.0]})),
    ):
        with pytest.raises(ProblemError, match=told):
            ask()


def test_controls_that_are_held_for_longer_than_the_plans_steps_are_warned_of(reach, caplog):
    problems.simulate(reach, rate=100.0)
    assert not caplog.records
    problems.simulate(reach, rate=20.0)
    assert "rate: a control lasts 0.05 s, longer than the plan's steps of 0.01 s" in caplog.text
    caplog.clear()
    simulate_receding(ddp.RecedingHorizon(arm.reach("ur5", horizon=6)), duration=0.1, rate=10.0)
    assert "rate: a control lasts 0.1 s" in caplog.text


def test_masses_and_milliseconds_in_place_of_factors_and_seconds_are_warned_of(reach, caplog):
    simulate_receding(ddp.RecedingHorizon(arm.reach("ur5", horizon=6)), duration=0.05, every=20.0, mass=1.1, rate=200.0)
    assert "every: 20 s is longer than the duration of 0.05 s, so the first plan is the only one" in caplog.text
    problems.simulate(reach, rate=200.0, mass=18.4)
    assert "mass: it is a factor, the robot is 18.4 times as heavy as planned" in caplog.text
    assert len(caplog.records) == 2
