"""Errors of simulated motions on paper, and a second motion beside the first in the browser."""

from dataclasses import replace

import numpy as np
import pytest

import ddp
import dynamics
import problems
import viz
from ddp import ProblemError
from viz.scene import build


def test_errors_are_drawn_as_curves_of_their_own_times(tmp_path):
    curves = {"policy": (np.arange(4.0), np.ones(4)), "$\\alpha$": (np.arange(2.0), np.array([0.0, 50.0]))}
    path = viz.plot_errors(curves, tmp_path / "errors.svg", "cm", "a trot")
    text = path.read_text()
    assert "policy" in text
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(("errors", "words"), [
    ({}, "errors: expected at least one curve"),
    ({"pd": np.ones(3)}, r"errors\['pd'\]: expected times and errors"),
    ({"pd": (np.ones(3), np.ones(2))}, r"errors\['pd'\]: expected shape \(3,\), got \(2,\)"),
])  # fmt: skip
def test_what_is_no_curve_is_refused(errors, words, tmp_path):
    with pytest.raises(ProblemError, match=words):
        viz.plot_errors(errors, tmp_path / "errors.png")


def test_a_motion_beside_another_has_as_many_states(tmp_path):
    robot = dynamics.load("ur5")
    X = np.tile(robot.q0, (3, 1))
    drawn = viz.save_html(tmp_path / "both.html", robot, X, 0.1, beside=X + 0.1)
    assert "the motion beside it" in (tmp_path / "both.html").read_text()
    assert drawn.where.endswith("both.html")
    viz.save_html(tmp_path / "plan.html", robot, X, 0.1, beside=X + 0.1, beside_title="what was planned")
    assert "what was planned" in (tmp_path / "plan.html").read_text()
    with pytest.raises(ProblemError, match="beside: expected 3 states, as many as X has, got 2"):
        viz.save_html(tmp_path / "both.html", robot, X, 0.1, beside=X[:2])


def test_a_simulated_motion_alone_is_drawn_beside_its_plan_in_seconds(tmp_path):
    solution = ddp.solve(problems.arm.reach("ur5"))
    run = problems.simulate(solution)
    alone, own = build(run), build(solution)
    assert alone.times[-1] == pytest.approx(solution.policy.duration, abs=1e-12)
    assert 0.015 < np.diff(alone.times)[:-1].min() < 0.025
    assert {"the plan", *(entry.label for entry in own.legend if "target" in entry.label)} <= {
        entry.label for entry in alone.legend
    }
    both = build({"now": run, "late": problems.simulate(solution, delay=0.01)})
    assert {"now", "late"} <= {entry.label for entry in both.legend}
    viz.save_html(tmp_path / "run.html", run)
    assert "the plan" in (tmp_path / "run.html").read_text()
    viz.save_html(tmp_path / "bare.html", replace(run, problem=None))
    assert "the plan" in (tmp_path / "bare.html").read_text()
    with pytest.raises(ProblemError, match="begins with finite states, got one whose first is not"):
        build(replace(run, X=np.where(np.arange(len(run.X))[:, None] > 0, run.X, np.nan)))
    assert len(build(replace(run, X=run.X[:1], t=run.t[:1], plan=run.plan[:1])).times) == 1


@pytest.mark.parametrize(("given", "words"), [
    ({"dt": 1e308}, r"dt: expected at most 1e\+100 s, got 1e\+308"),
    ({"dt": [1e308, 1e308]}, r"dt: expected durations of at most 1e\+100 s"),
    ({"forces": {"tool0": np.full((2, 3), 1e308)}}, r"forces\['tool0'\]: expected numbers of at most 1e\+100 N"),
    ({"obstacles": [viz.Sphere([1e308, 0.0, 0.0], 0.1)]}, r"obstacles: expected places and radii of at most 1e\+100 m"),
    ({"obstacles": [viz.Sphere([0.0, 0.0, 0.0], 1e308)]}, r"obstacles: expected places and radii of at most 1e\+100 m"),
])  # fmt: skip
def test_numbers_whose_squares_overflow_are_not_drawn(given, words, tmp_path):
    robot = dynamics.load("ur5")
    with pytest.raises(ProblemError, match=words):
        viz.save_html(tmp_path / "page.html", robot, np.tile(robot.q0, (3, 1)), **{"dt": 0.1} | given)
