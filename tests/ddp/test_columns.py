"""A solution's numbers come by name, and tables hold them as they are."""

import csv

import numpy as np
import pytest

import ddp
import problems
from ddp.errors import ProblemError
from dynamics import FunctionDynamics, RobotDynamics, load
from problems import pendulum, quadruped
from problems.costs import ControlCost


@pytest.fixture(scope="module")
def swing():
    return ddp.solve(pendulum.swing_up())


def test_positions_velocities_and_torques_come_by_the_names_of_joints():
    problem = quadruped.reorientation(horizon=4)
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    robot = problem.dynamics.robot
    assert np.array_equal(np.asarray(solution.q), solution.X[:, : robot.nq])
    assert np.array_equal(np.asarray(solution.v), solution.X[:, robot.nq :])
    joint = robot.model.getJointId("lh_kfe_joint")
    q, v = robot.model.idx_qs[joint], robot.model.idx_vs[joint]
    assert np.array_equal(solution.q["lh_kfe_joint"], solution.X[:, q])
    assert np.array_equal(solution.v["lh_kfe_joint"], solution.X[:, robot.nq + v])
    assert np.array_equal(solution.tau["lh_kfe_joint"], solution.U @ problem.dynamics.actuation[v])
    assert not np.asarray(solution.tau)[:, :6].any()
    assert len(solution.q) == robot.nq
    with pytest.raises(ProblemError, match="there is no column 'lh_kfe_jint'; did you mean 'lh_kfe_joint'"):
        solution.q["lh_kfe_jint"]


def test_times_are_those_of_the_states(swing):
    assert np.allclose(swing.t, swing.problem.dynamics.dt * np.arange(len(swing.X)), rtol=1e-14)


def test_a_table_reads_back_as_it_was(swing, tmp_path):
    path = swing.to_csv(tmp_path / "swing.csv")
    with path.open() as file:
        header, *rows = csv.reader(file)
    (joint,) = swing.q.names
    assert header == ["time", joint, f"rate of {joint}", f"control {joint}"]
    table = np.array([[float(number or "nan") for number in row] for row in rows])
    assert np.array_equal(table[:, 0], swing.t)
    assert np.array_equal(table[:, 1:3], swing.X)
    assert np.array_equal(table[:-1, 3:], swing.U)
    assert np.isnan(table[-1, 3])


def test_pandas_and_dictionaries_have_the_same_numbers(swing):
    frame, known = swing.to_pandas(), swing.to_dict()
    (joint,) = swing.q.names
    assert np.array_equal(frame.index, swing.t)
    assert np.array_equal(frame[joint], known["q"][joint])
    assert known["cost"] == swing.cost
    assert np.array_equal(known["history"]["cost"], [record.cost for record in swing.history])
    assert known["history"]["hessian"].tolist() == [record.hessian for record in swing.history]


def test_a_system_without_names_numbers_its_state():
    system = FunctionDynamics(lambda x, u: x + 0.1 * u, 2, 2)
    term = ddp.JittedTerm(lambda x, u: 0.5 * (u @ u + x @ x))
    solution = ddp.solve(ddp.Problem(dynamics=system, running=[term], terminal=[], x0=[1.0, 2.0], horizon=3))
    assert np.array_equal(solution.q["x1"], solution.X[:, 1])
    assert len(solution.v) == 0
    with pytest.raises(ProblemError, match="tau: expected the solution of a robot's problem, got one of Function"):
        _ = solution.tau


def test_what_cannot_be_told_is_said(swing, tmp_path):
    with pytest.raises(ProblemError, match=r"path: expected a file whose name ends with \.csv"):
        swing.to_csv(tmp_path / "swing.txt")
    swing.save(tmp_path / "swing.npz")
    alone = ddp.Solution.load(tmp_path / "swing.npz")
    with pytest.raises(ProblemError, match="problem: to_csv needs one"):
        alone.to_csv(tmp_path / "swing.csv")


def test_robots_that_velocities_drive_name_their_joints_and_their_base():
    solution = ddp.solve(problems.find("mobile/reach").build(), throw=False)
    assert [*solution.q][:5] == ["cart.x", "cart.y", "cart.cos", "cart.sin", "shoulder_pan_joint"]
    assert [*solution.v][:3] == ["cart.vx", "cart.vy", "cart.wz"]
    assert [*solution.u][:3] == ["cart.vx", "cart.wz", "shoulder_pan_joint"]  # no wheel rolls sideways


TWO_MOTORS = """<mujoco><worldbody><body><joint name="{}" axis="0 1 0"/><geom size=".1" pos="0 0 .3"/>
  <body pos="0 0 1"><joint name="b" axis="0 1 0"/><geom size=".1" pos="0 0 .3"/></body></body></worldbody>
  <actuator><motor joint="b" gear="2"/><motor joint="{}"/><motor joint="b" gear="3"/></actuator></mujoco>"""


def test_no_column_is_lost_where_two_motors_drive_one_joint(tmp_path):
    system = RobotDynamics(load(TWO_MOTORS.format("a", "a")), 0.01)
    problem = ddp.Problem(system, [ControlCost([1.0, 2.0, 3.0], 1.0)], [], np.zeros(4), 3)
    solution = ddp.solve(problem)
    assert solution.u.names == ("control 0", "a", "control 2")
    assert all(np.array_equal(solution.u[name], solution.U[:, i]) for i, name in enumerate(solution.u.names))
    header, *rows = csv.reader(solution.to_csv(tmp_path / "two.csv").read_text().splitlines())
    assert header[-3:] == ["control control 0", "control a", "control control 2"]
    assert np.array_equal(np.array(rows[:-1])[:, -3:].astype(float), solution.U)


def test_a_joint_that_is_called_as_another_column_is_refused(tmp_path):
    system = RobotDynamics(load(TWO_MOTORS.format("time", "time")), 0.01)
    solution = ddp.solve(ddp.Problem(system, [ControlCost(np.zeros(3), 1.0)], [], np.zeros(4), 3))
    with pytest.raises(ProblemError, match="dynamics: expected a column for each name, got 'time' twice"):
        solution.to_csv(tmp_path / "time.csv")
