"""Motions taken elsewhere are the same motions there: MuJoCo, Drake, ROS, data sets."""

import json
import sys
from types import ModuleType, SimpleNamespace

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp import Equality, Soft
from ddp.errors import ModelError, ProblemError
from ddp.options import DDP
from ddp.problem import Problem
from ddp.solver import solve
from problems import interop, pendulum
from problems.costs import ControlCost, StateCost

TREE = """<mujoco><worldbody><body name="trunk" pos="0 0 1"><freejoint name="root"/><geom size="0.1" mass="3"/>
  <body name="arm" pos="0.2 0 0"><joint name="shoulder" type="ball"/><geom size="0.05" pos="0 0 0.2" mass="1"/>
    <body name="hand" pos="0 0 0.4"><joint name="slide" type="slide" axis="0 0 1"/><geom size="0.03" mass="0.5"/></body>
  </body>
  <body name="leg" pos="-0.2 0 0"><joint name="hip" axis="0 1 0"/><geom size="0.05" pos="0 0 -0.2" mass="1"/></body>
</body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def tree():
    return dynamics.load(TREE), mujoco.MjModel.from_xml_string(TREE)


@pytest.fixture(scope="module")
def solution(tree):
    """A free robot's motion, from a start that turns and moves."""
    robot, _ = tree
    system = dynamics.RobotDynamics(robot, 0.01)
    rng = np.random.default_rng(3)
    x0 = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)])
    terms = [StateCost(system, x0, 1e-3), ControlCost(np.zeros(system.nu), 1e-3)]
    return solve(Problem(system, terms, [], x0, 12), DDP(max_iterations=2), throw=False)


def states(robot, rng, count=6):
    Q = [robot.random_configuration(rng) for _ in range(count)]
    return np.concatenate([Q, rng.normal(size=(count, robot.nv))], axis=1)


def test_bodies_are_where_mujoco_puts_them(tree, rng):
    robot, model = tree
    X = states(robot, rng)
    qpos, qvel = interop.to_mujoco(robot, model, X)
    data, own = mujoco.MjData(model), robot.model.createData()
    for x, place, rate in zip(X, qpos, qvel, strict=True):
        data.qpos[:], data.qvel[:] = place, rate
        mujoco.mj_forward(model, data)
        pin.forwardKinematics(robot.model, own, x[: robot.nq], x[robot.nq :])
        for name, body in (("shoulder", "arm"), ("slide", "hand"), ("hip", "leg")):
            j = robot.model.getJointId(name)
            assert np.allclose(own.oMi[j].translation, data.body(body).xpos, atol=1e-9)
            velocity = np.zeros(6)
            index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_XBODY, body)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, index, velocity, 0)
            expected = pin.getVelocity(robot.model, own, j, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
            assert np.allclose(np.concatenate([expected.angular, expected.linear]), velocity, atol=1e-9)


def placed_base():
    """A robot whose base begins elsewhere than at the world's origin, as models of SDF do; and MuJoCo's of the tree."""
    robot, model = pin.Model(), mujoco.MjModel.from_xml_string(TREE)
    for name, joint in (("root", pin.JointModelFreeFlyer()), ("hip", pin.JointModelRY())):
        place = pin.SE3(pin.exp3(np.array([0.3, -0.2, 0.5])), np.array([1.0, 2.0, 3.0]))
        j = robot.addJoint(robot.njoints - 1, joint, place, name)
        robot.appendBodyToJoint(j, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    return dynamics.Robot(robot), model


def test_bases_are_in_the_world_wherever_a_robot_counts_them_from(rng):
    robot, model = placed_base()
    X = states(robot, rng)
    qpos, qvel = interop.to_mujoco(robot, model, X)
    np.testing.assert_allclose(interop.from_mujoco(robot, model, qpos, qvel), X, atol=1e-12)
    own, data = robot.model.createData(), mujoco.MjData(model)
    follower = interop.Follower(solve(resting(robot), throw=False))
    samples = interop.drake_samples(solve(resting(robot, X[0]), DDP(max_iterations=1), throw=False))
    for i, (x, place, rate) in enumerate(zip(X, qpos, qvel, strict=True)):
        data.qpos[:], data.qvel[:] = place, rate
        mujoco.mj_forward(model, data)
        pin.forwardKinematics(robot.model, own, x[: robot.nq], x[robot.nq :])
        base, trunk = own.oMi[1], data.body("trunk")
        np.testing.assert_allclose(base.translation, trunk.xpos, atol=1e-12)
        np.testing.assert_allclose(base.rotation.ravel(), trunk.xmat, atol=1e-12)
        np.testing.assert_allclose(base.rotation @ own.v[1].linear, rate[:3], atol=1e-12)
        if i == 0:
            np.testing.assert_allclose(samples.q[:7, 0], [*trunk.xquat, *trunk.xpos], atol=1e-12)
        follower.measure_base(float(i), trunk.xpos, np.roll(trunk.xquat, -1), x[robot.nq :][:3], x[robot.nq :][3:6])
        np.testing.assert_allclose(follower._x[:7], x[:7], atol=1e-12)


def resting(robot, x0=None):
    """Next to nothing to do for a robot."""
    system = dynamics.RobotDynamics(robot, 0.01)
    x0 = np.concatenate([robot.neutral(), np.zeros(robot.nv)]) if x0 is None else x0
    return Problem(system, [ControlCost(np.zeros(system.nu), 1.0)], [], x0, 3)


def test_kinds_of_joints_are_those_of_mujoco():
    text = "<mujoco><worldbody><body><joint name='a' type='{}'/><geom size='.1'/></body></worldbody></mujoco>"
    robots = [dynamics.load(text.format(kind)) for kind in ("hinge", "slide")]
    models = [mujoco.MjModel.from_xml_string(text.format(kind)) for kind in ("hinge", "slide")]
    for robot, model in zip(robots, models[::-1], strict=True):
        with pytest.raises(ProblemError, match="model: its joint 'a' is of another kind"):
            interop.to_mujoco(robot, model, [1.0, 2.0])
    screw = pin.Model()
    screw.appendBodyToJoint(screw.addJoint(0, pin.JointModelHX(0.1), pin.SE3.Identity(), "a"), pin.Inertia.Random(),
                            pin.SE3.Identity())  # fmt: skip
    with pytest.raises(ProblemError, match="robot: expected hinges, sliders, balls and free bases, got a"):
        interop.to_mujoco(dynamics.Robot(screw), models[0], [1.0, 2.0])
    nested = pin.Model()
    for name in ("base", "load"):
        j = nested.addJoint(nested.njoints - 1, pin.JointModelFreeFlyer(), pin.SE3.Identity(), name)
        nested.appendBodyToJoint(j, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    with pytest.raises(ProblemError, match="robot: expected free bases on the world alone, got load on another body"):
        interop.to_mujoco(dynamics.Robot(nested), models[0], np.zeros(26))


def test_the_way_to_mujoco_and_back_ends_where_it_began(tree, rng):
    robot, model = tree
    X = states(robot, rng)
    back = interop.from_mujoco(robot, model, *interop.to_mujoco(robot, model, X))
    assert np.allclose(back[:, robot.nq :], X[:, robot.nq :], atol=1e-12)
    for x, y in zip(X, back, strict=True):
        assert np.abs(pin.difference(robot.model, x[: robot.nq], y[: robot.nq])).max() < 1e-9
    one = interop.from_mujoco(robot, model, *interop.to_mujoco(robot, model, X[0]))
    assert one.shape == X[0].shape
    assert interop.from_mujoco(robot, model, *interop.to_mujoco(robot, model, X[:0])).shape == X[:0].shape
    assert dynamics.FrameSensor(robot, "hand").difference(*np.zeros((2, 0, 4, 4))).shape == (0, 6)


def test_quaternions_of_zeros_are_no_turn_as_they_are_to_mujoco(tree):
    robot, model = tree
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_forward(model, data)
    q = interop.from_mujoco(robot, model, data.qpos)[: robot.nq]
    for name in ("trunk", "arm", "hand"):
        turn = dynamics.frame_placement(robot, q, name)[:3, :3]
        np.testing.assert_allclose(turn, data.body(name).xmat.reshape(3, 3), atol=1e-12)


def test_joints_without_names_are_matched_by_those_that_load_gives_them():
    text = """<mujoco><worldbody><body name="base"><freejoint/><geom size=".1"/>
        <body name="arm"><joint axis="0 1 0"/><joint type="slide"/><geom size=".1"/></body></body>
        <body><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""
    robot, model = dynamics.load(text), mujoco.MjModel.from_xml_string(text)
    x = np.concatenate([robot.q0, np.arange(1.0, 1.0 + robot.nv)])
    qpos, qvel = interop.to_mujoco(robot, model, x)
    assert qvel.tolist() == x[robot.nq :].tolist()
    np.testing.assert_array_equal(interop.from_mujoco(robot, model, qpos, qvel), x)


def test_joints_are_matched_by_name_whatever_their_order(rng):
    text = "<mujoco><worldbody>{}</worldbody></mujoco>"
    body = '<body name="{0}" pos="{1} 0 0"><joint name="{0}" axis="0 1 0"/><geom size="0.1"/></body>'
    parts = [body.format("a", 0), body.format("b", 1)]
    robot = dynamics.load(text.format("".join(parts)))
    model = mujoco.MjModel.from_xml_string(text.format("".join(parts[::-1])))
    qpos, qvel = interop.to_mujoco(robot, model, [1.0, 2.0, 3.0, 4.0])
    assert (qpos.tolist(), qvel.tolist()) == ([2.0, 1.0], [4.0, 3.0])
    other = mujoco.MjModel.from_xml_string(text.format(parts[0]))
    with pytest.raises(ProblemError, match="model: expected a joint 'b'"):
        interop.to_mujoco(robot, other, np.zeros(4))


def test_drakes_rates_are_those_of_its_positions(solution):
    """Differences of the integrated motion say what q_dot is, in Drake's order of quaternions."""
    robot, samples = solution.problem.dynamics.robot, interop.drake_samples(solution)
    assert samples.q.shape == samples.q_dot.shape == (13, 13)
    assert samples.v.shape == (robot.nv, 13)
    assert np.array_equal(samples.breaks, solution.t)
    assert np.allclose(samples.q[4:7], solution.X[:, :3].T)  # quaternion, then place
    assert np.allclose(samples.q[0], solution.X[:, 6])
    h = 1e-6
    for k, x in enumerate(solution.X):
        q, v = x[: robot.nq], x[robot.nq :]
        ahead, behind = (pin.integrate(robot.model, q, s * h * v) for s in (1.0, -1.0))
        rate = (ahead - behind) / (2.0 * h)
        expected = np.concatenate([np.roll(rate[3:7], 1), rate[:3], np.roll(rate[7:11], 1), rate[11:]])
        assert np.allclose(samples.q_dot[:, k], expected, atol=1e-6)


def test_drakes_own_class_is_given_the_samples(solution, monkeypatch):
    with pytest.raises(ProblemError, match="to_drake: needs pydrake, which is not installed"):
        interop.to_drake(solution)
    fake = ModuleType("pydrake.trajectories")
    fake.PiecewisePolynomial = SimpleNamespace(CubicHermite=lambda *given: given)
    monkeypatch.setitem(sys.modules, "pydrake", ModuleType("pydrake"))
    monkeypatch.setitem(sys.modules, "pydrake.trajectories", fake)
    breaks, q, _ = interop.to_drake(solution)
    assert np.array_equal(breaks, solution.t)
    assert np.array_equal(q, interop.drake_samples(solution).q)


def test_ros_has_joints_with_one_degree_of_freedom_and_exact_times(solution, tmp_path):
    told = json.loads(interop.write_ros(solution, tmp_path / "motion.json").read_text())
    assert told == interop.to_ros(solution)
    assert told["joint_names"] == ["slide", "hip"]
    assert len(told["points"]) == 13
    for k, point in enumerate(told["points"]):
        start = point["time_from_start"]
        assert start["sec"] * 10**9 + start["nanosec"] == 10**7 * k
        assert point["positions"] == [solution.q["slide"][k], solution.q["hip"][k]]
        assert point["effort"] == [solution.tau["slide"][min(k, 11)], solution.tau["hip"][min(k, 11)]]
    with pytest.raises(ProblemError, match="ros_message: needs trajectory_msgs"):
        interop.ros_message(solution)


def given_way():
    """A mass that cannot be where a soft constraint has it at knot 2."""
    system = dynamics.FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, 0.1)
    place = Soft(Equality(lambda x, u: x[:1] - 1.0), price=2.0)
    return solve(Problem(system, [lambda x, u: u @ u], [], np.zeros(2), 4, constraints_at={2: [place]}))


def test_episodes_have_gymnasiums_shapes_and_rewards_sum_to_the_cost():
    found = [solve(pendulum.swing_up().starting_at(np.array([angle, 0.0]))) for angle in (0.0, 0.2)]
    for episode, one in zip(interop.episodes(found), found, strict=True):
        assert np.array_equal(episode["observations"], one.X)
        assert episode["rewards"].sum() == pytest.approx(-one.cost)
        assert episode["truncations"].tolist() == [False] * (len(one.U) - 1) + [True]
        assert not episode["terminations"].any()
    (soft,) = interop.episodes([given_way()])
    assert soft["rewards"].sum() == pytest.approx(-given_way().cost)
    assert soft["rewards"][2] < -0.5 < soft["rewards"][0]  # the knot that pays
    table = interop.lerobot_table(found, "swing up")
    assert len(table) == sum(len(one.U) for one in found)
    assert table["index"].tolist() == list(range(len(table)))
    assert table.attrs["tasks"] == ["swing up"]
    last = table[table["episode_index"] == 1].iloc[-1]
    assert last["next.done"]
    assert np.allclose(last["observation.state"], found[1].X[-2], atol=1e-6)


def test_names_of_robot_descriptions_are_loaded(tmp_path, monkeypatch):
    package = tmp_path / "robot_descriptions"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "tree.xml").write_text(TREE)
    (package / "tree_mj_description.py").write_text(f"MJCF_PATH = {str(tmp_path / 'tree.xml')!r}\n")
    (package / "broken_description.py").write_text("raise OSError('no network')\n")
    (package / "empty_description.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert "hip" in dynamics.load("tree_mj_description").joint_names
    with pytest.raises(ModelError, match="cannot load broken_description: OSError: no network"):
        dynamics.load("broken_description")
    with pytest.raises(ModelError, match="neither a URDF nor an MJCF file of empty_description"):
        dynamics.load("empty_description")
    with pytest.raises(ModelError, match=r"robots`\) is called 'nothing_description'"):
        dynamics.load("nothing_description")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, m: interop.to_mujoco(3, m, np.zeros(4)), "robot: expected a Robot from mayne.load, got 3"),
        (lambda s, m: interop.to_mujoco(s.problem.dynamics.robot, 3, s.X), "model: expected a mujoco.MjModel"),
        (lambda s, m: interop.to_mujoco(s.problem.dynamics.robot, m, np.zeros(4)), "X: expected states of"),
        (lambda s, m: interop.from_mujoco(s.problem.dynamics.robot, m, np.zeros(3)), "qpos: expected"),
        (lambda s, m: interop.drake_samples(3), "solution: expected a Solution"),
        (lambda s, m: interop.episodes([]), "solutions: expected at least one"),
        (lambda s, m: interop.lerobot_table([s, 3]), r"solutions\[1\]: expected a Solution"),
    ],
)
def test_bad_input_is_named(solution, tree, call, message):
    with pytest.raises(ProblemError, match=message):
        call(solution, tree[1])


def test_wheels_that_turn_by_more_than_half_a_turn_a_step_go_on_in_their_direction():
    solid = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    robot = dynamics.load(f"""<robot name="mill"><link name="base"/><link name="wheel">{solid}</link>
        <joint name="axle" type="continuous"><parent link="base"/><child link="wheel"/></joint></robot>""")
    coasting = [ControlCost(np.zeros(1), 1.0)]
    mill = solve(Problem(dynamics.RobotDynamics(robot, 0.05), coasting, [], [1.0, 0.0, -90.0], 8))
    places = [point["positions"][0] for point in interop.to_ros(mill)["points"]]
    np.testing.assert_allclose(places, -4.5 * np.arange(9), atol=1e-9)
    np.testing.assert_allclose(interop.drake_samples(mill).q[0], places, atol=1e-12)
