"""Numbers beside a motion are those of the solution, with the limits that hold, in pages and in plots."""

import re

import numpy as np
import pytest
from pages import Page

import ddp
import viz
from ddp.errors import ProblemError
from dynamics import FunctionDynamics
from problems import arm, gaits, pendulum
from problems.registry import find
from viz.plots import sheet
from viz.signals import panels, signals_of
from viz.solutions import _panels


@pytest.fixture(scope="module")
def solution():
    problem = arm.reach("ur5", horizon=10)
    return ddp.solve(problem, ddp.DDP(max_iterations=2), throw=False)


def test_a_solution_brings_positions_velocities_and_controls_with_their_limits(solution, tmp_path):
    model = solution.problem.dynamics.robot.model
    viz.save_html(tmp_path / "reach.html", solution)
    plots = Page((tmp_path / "reach.html").read_text(encoding="utf-8")).scene["plots"]
    assert [plot["title"] for plot in plots] == ["position [rad]", "velocity [rad/s]", "control [N m]"]
    for plot, numbers in zip(plots, (solution.X[:, :6], solution.X[:, 6:], solution.U), strict=True):
        assert [line["label"] for line in plot["lines"]] == [*model.names[1:]]
        assert np.allclose(np.transpose([line["y"] for line in plot["lines"]]), numbers, rtol=1e-5, atol=1e-12)
        assert np.allclose(plot["lines"][0]["t"], solution.t[: len(numbers)], atol=1e-6)
    rates = [[limit[0] for limit in line["limits"]] for line in plots[1]["lines"]]
    assert np.allclose(rates, np.outer(model.velocityLimit, [-1, 1]), rtol=1e-5)
    assert plots[2]["lines"][0]["limits"] == []
    assert plots[2]["lines"][0]["held"]


def test_several_solutions_share_a_plot_of_each_number(solution):
    told = signals_of(solution)
    found = panels([("a", (1.0, 0.0, 0.0, 1.0), told), ("b", (0.0, 0.0, 1.0, 1.0), told)])
    assert len(found) == 18
    assert found[8]["title"] == "velocity [rad/s], elbow_joint"
    assert [line["label"] for line in found[8]["lines"]] == ["a", "b"]


def test_signals_of_ones_own_stand_beside_the_motion(solution, tmp_path):
    power = viz.Signal(solution.t[:-1], (solution.U * solution.X[:-1, 6:]).sum(axis=1), ("power",), "W", upper=100.0)
    gappy = viz.Signal([0.0, 0.1], [[1.0, np.nan], [2.0, 3.0]], ("x", "y"), lower=[-1.0, -np.inf])
    viz.save_html(tmp_path / "page.html", solution, signals={"power": power, "gaps": gappy})
    plots = Page((tmp_path / "page.html").read_text(encoding="utf-8")).scene["plots"]
    assert [plot["title"] for plot in plots[3:]] == ["power [W]", "gaps"]
    assert plots[3]["lines"][0]["limits"] == [[100.0] * 10]
    assert plots[4]["lines"][1]["y"] == [None, 3.0]
    assert [len(line["limits"]) for line in plots[4]["lines"]] == [1, 0]


def test_a_figure_of_a_solution_is_written_for_robots_and_others(solution, tmp_path):
    assert viz.plot_solution({"a": solution, "b$": solution}, tmp_path / "a.svg", "$title").exists()
    drawn = (tmp_path / "a.svg").read_text()
    labels = "elbow_joint", "b$", "$title", "gain on position, dashed: on velocity", "position [rad]"
    assert all(f"<!-- {label} -->" in drawn for label in labels)
    other = ddp.solve(pendulum.swing_up(), ddp.DDP(max_iterations=1), throw=False)
    with pytest.raises(ProblemError, match="expected one of the system of the first"):
        viz.plot_solution({"a": solution, "b": other}, tmp_path / "b.svg")


def test_controls_are_not_drawn_as_zero_in_impacts():
    solution = ddp.solve(gaits.trot("solo12"), ddp.DDP(max_iterations=1), throw=False)
    control, impacts = signals_of(solution)["control"], np.diff(solution.t) == 0.0
    assert impacts.any()
    np.testing.assert_array_equal(control.t, solution.t[:-1][~impacts])
    np.testing.assert_array_equal(control.values, solution.U[~impacts])


def test_units_of_numbers_of_joints_are_told():
    units = {}
    for name in ("cartpole/swing-up", "arm/torque-rates", "quadrotor/loop", "soft/cable-arm", "mobile/drive"):
        solution = ddp.solve(find(name)(), ddp.DDP(max_iterations=1), throw=False)
        units[name] = [signal.unit for signal in signals_of(solution).values()]
    assert units == {
        "cartpole/swing-up": ["m, rad", "m/s, rad/s", "N"], "arm/torque-rates": ["rad", "rad/s", ""],
        "quadrotor/loop": ["m, 1", "m/s, rad/s", ""], "soft/cable-arm": ["", "", ""],
        "mobile/drive": ["m, rad, 1", "m/s, rad/s", "N m"],
    }  # fmt: skip


def test_states_and_controls_without_common_names_both_begin_at_the_top(tmp_path):
    system = FunctionDynamics(lambda x, u: 0.9 * x + u[0], nx=3, nu=1, dt=0.1)
    problem = ddp.Problem(system, [lambda x, u: x @ x + u @ u], [], np.ones(3), 5)
    viz.plot_solution(ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False), tmp_path / "a.svg")
    height = float(re.search(r'height="([0-9.]+)pt"', (tmp_path / "a.svg").read_text())[1])
    assert height == pytest.approx(72.0 * (0.6 + 3 * 1.15))  # three rows, not four


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: viz.Signal([], []), "t: expected at least one time"),
        (lambda: viz.Signal([1.0, 0.0], [1.0, 2.0]), "t: expected at least one time, none before"),
        (lambda: viz.Signal([0.0, 1.0], [1.0, 2.0, 3.0]), r"values: expected shape \(2,\), got \(3,\)"),
        (lambda: viz.Signal([0.0, 1.0], [1.0, 2.0], ("a", "b")), r"values: expected .* got"),
        (lambda: viz.Signal([0.0, 1.0], [1.0, 2.0], lower=[1.0, 2.0]), "lower: expected"),
        (lambda: viz.Signal([0.0], [1.0], (3,)), "names: a name: expected a text"),
        (lambda: viz.plot_solution({}, "a.svg"), "solutions: expected at least one"),
        (lambda: viz.plot_solution({"a": 3}, "a.svg"), r"solutions\['a'\]: expected a Solution, got 3"),
        (lambda: viz.plot_solution("a", "a.svg"), "solutions: expected a Solution or a mapping"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


def test_joints_of_a_robot_in_compositions_are_named():
    solution = ddp.solve(find("arm/torque-rates")(), ddp.DDP(max_iterations=1), throw=False)
    signals = viz.signals_of(solution)
    assert signals["position"].names[2] == "elbow_joint"
    np.testing.assert_array_equal(signals["position"].values, solution.X[:, :6])
    np.testing.assert_array_equal(signals["velocity"].values, solution.X[:, 6:12])
    free = ddp.solve(find("arm/best-start")(), ddp.DDP(max_iterations=1), throw=False)
    shown = viz.signals_of(free)["position"]
    assert shown.t[0] == 0.0
    assert len(shown.t) == len(free.X) - free.problem.dynamics.before


def test_long_names_of_rows_keep_to_their_rows(tmp_path):
    names = "left_shoulder_pitch_joint", "right_shoulder_pitch_joint"
    figure, _ = sheet(tmp_path / "a.png", None, 3.2, 0.6 + 1.15 * 2)
    panels = _panels(figure, {name: i for i, name in enumerate(names)}, {"position": names}, {})
    figure.canvas.draw()
    first, second = (panels[name, "position"].yaxis.label.get_window_extent() for name in names)
    assert not first.overlaps(second)
