"""Limits of places, steps and slopes of the ground, and cones are drawn where constraints and contacts have them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from pages import at, moves, vertices

from ddp.constraints.constraint import Soft
from ddp.problem import Problem
from dynamics import Contact, Phase, PhasedDynamics, RobotDynamics, load
from dynamics.phases.reaction import friction_cones
from dynamics.robots.model import Robot
from dynamics.steps import augment
from problems import arm, gaits
from problems.constraints import CenterOfMassLimits, FramePositionLimits, JointLimits, TorqueLimits
from problems.contact_costs import friction_cone, friction_constraint
from problems.lifted import free_start, lifted
from problems.obstacles import Sphere, SphereClearance
from problems.registry import ALL
from viz.details import HELD
from viz.iterations import Iterate, variant
from viz.scene import build
from viz.world import world_of

HORIZON = 6


def known(problem, X, U, held=()):
    """A solution with multipliers at some (constraint, knot after its first, row, value)."""
    multipliers = [np.zeros(placed.lower.shape) for placed in problem.placed]
    for one, knot, row, value in held:
        multipliers[one][knot, row] = value
    flat = np.concatenate([part.ravel() for part in multipliers]) if multipliers else np.zeros(0)
    found = problem.residuals(X, U, flat)
    return SimpleNamespace(X=X, U=U, problem=problem, multipliers=flat, residuals=lambda: found)


def effort(x, u):
    return 0.5 * (u @ u)


def moving(problem, horizon=HORIZON):
    """Trajectory of an arm that turns about its first joint."""
    X = np.tile(problem.x0, (horizon + 1, 1))
    X[:, 0] = np.linspace(0.0, 1.0, horizon + 1)
    return X, np.zeros((horizon, problem.dynamics.nu))


def drawn(scene, prefix):
    return [m for m in scene.messages if m["path"].startswith(prefix) and m["type"] == "set_object"]


def red(scene, path, problem):
    color = moves(scene.messages).get((f"{path}/<object>", "material.color"))
    times = problem.dynamics.dt * np.arange(HORIZON + 1)
    return [] if color is None else [k for k, t in enumerate(times) if np.allclose(at(color, t), HELD)]


def test_bounds_on_places_are_squares_in_their_planes_red_while_their_side_holds():
    problem = arm.reach(horizon=HORIZON)
    robot = problem.dynamics.robot
    slanted = [[0.0, 0.0, 1.0], [1.0, 2.0, 2.0]]
    limits = FramePositionLimits(robot, "tool0", lower=[0.1, 0.3], upper=[0.7, np.inf], axes=slanted)
    balance = CenterOfMassLimits(robot, upper=[0.2, np.inf, np.inf])
    problem = replace(problem, constraints=[limits, Soft(balance, 1.0)])
    X, U = moving(problem)
    scene = build(known(problem, X, U, [(0, 2, 0, -1.0), (0, 3, 0, 2.0), (1, 4, 0, 1.0)]))
    expected = {"tool0/0": (slanted[0], 0.1), "tool0/1": (slanted[0], 0.7), "tool0/2": (slanted[1], 0.3),
                "_/0": ([1.0, 0.0, 0.0], 0.2)}  # fmt: skip
    assert {m["path"].removeprefix("/mayne/walls/") for m in drawn(scene, "/mayne/walls")} == set(expected)
    for name, (axis, bound) in expected.items():
        (wall,) = drawn(scene, f"/mayne/walls/{name}")
        away = (vertices(wall) @ np.array(axis) - bound) / np.linalg.norm(axis)
        assert np.abs(away).max() <= 1.001e-3 * scene.size, name
    assert red(scene, "/mayne/walls/tool0/0", problem) == [2]
    assert red(scene, "/mayne/walls/tool0/1", problem) == [3]
    assert red(scene, "/mayne/walls/tool0/2", problem) == []
    assert red(scene, "/mayne/walls/_/0", problem) == [4]
    labels = [entry.label for entry in scene.legend if "limit of" in entry.label]
    assert labels == [f"limit of {what}, red while it holds the motion" for what in ("tool0", "the centre of mass")]


def test_equal_bounds_are_one_wall_and_far_walls_leave_the_picture_as_it_is():
    problem = arm.reach(horizon=HORIZON)
    robot = problem.dynamics.robot
    limits = FramePositionLimits(robot, "tool0", lower=[0.3, -50.0, -np.inf], upper=[0.3, 0.2, 70.0])
    problem = replace(problem, constraints=[limits])
    scene = build(known(problem, *moving(problem)))
    middles = [vertices(wall).mean(axis=0) for wall in drawn(scene, "/mayne/walls")]
    assert len(middles) == 4
    assert np.allclose([middles[0][0], middles[1][1], middles[2][1], middles[3][2]], [0.3, -50.0, 0.2, 70.0], atol=1e-9)
    unlimited = build(known(arm.reach(horizon=HORIZON), *moving(problem)))
    assert abs(scene.size - unlimited.size) < 1e-12


def test_rings_show_joints_whose_limits_hold():
    problem = arm.reach(horizon=HORIZON)
    robot = problem.dynamics.robot
    limits = [JointLimits(robot, upper=3.0), TorqueLimits(problem.dynamics, 20.0, joints=["elbow_joint"])]
    problem = replace(problem, constraints=limits)
    X, U = moving(problem)
    told = world_of(known(problem, X, U, [(0, 2, 1, 3.0), (1, 4, 0, -1.0)]), problem.dynamics, X, U)
    names = {robot.model.names[joint]: np.flatnonzero(flags).tolist() for joint, flags in told.limits.items()}
    assert names == {"shoulder_lift_joint": [2], "elbow_joint": [4]}


def test_rings_show_a_joint_that_is_called_as_the_world():
    problem = arm.reach(horizon=HORIZON)
    model = pin.Model(problem.dynamics.robot.model)
    model.names[3] = "universe"
    system = RobotDynamics(Robot(model), problem.dynamics.dt)
    limits = [JointLimits(system.robot, upper=3.0)]
    problem = replace(problem, dynamics=system, running=[], terminal=[], constraints=limits)
    X, U = moving(problem)
    told = world_of(known(problem, X, U, [(0, 2, 2, 3.0)]), system, X, U)
    assert {joint: np.flatnonzero(flags).tolist() for joint, flags in told.limits.items()} == {3: [2]}


def test_what_compositions_lift_is_drawn_as_of_the_robot_alone():
    plain = arm.reach(horizon=HORIZON)
    robot = plain.dynamics.robot
    plain = replace(plain, constraints=[SphereClearance(robot, "tool0", 0.05, Sphere([0.5, 0.1, 0.4], 0.1))])
    free = free_start(lifted(plain, augment.remembering(plain.dynamics, 2), np.zeros(2)), np.eye(14)[:, :6])
    before = free.dynamics.before
    X, U = moving(free, before + HORIZON)
    X[before:, : plain.dynamics.nx] = moving(plain)[0]
    scene = build(known(free, X, U, [(len(free.placed) - 2, 3, 0, -1.0)]))
    alone = build(known(plain, *moving(plain)))
    for prefix in ("/mayne/targets", "/mayne/obstacles"):
        ours, theirs = drawn(scene, prefix), drawn(alone, prefix)
        assert ours
        for one, other in zip(ours, theirs, strict=True):
            assert np.allclose(vertices(one).mean(axis=0), vertices(other).mean(axis=0), atol=1e-9)
    start = free.placed[-2].start
    assert red(scene, "/mayne/obstacles/0", plain) == [start + 3 - before]


def test_forces_of_a_gait_in_compositions_are_drawn_and_within_its_friction():
    problem = ALL["quadruped/periodic-trot"].build()
    X, U = problem.guess
    scene = build(SimpleNamespace(X=X, U=U, problem=problem))
    for foot in ("LF_FOOT", "RH_FOOT"):
        assert drawn(scene, f"/mayne/contacts/{foot}/force")
        assert drawn(scene, f"/mayne/contacts/{foot}/cone")


@pytest.fixture(scope="module")
def go2():
    return load("go2")


def standing(robot, places, friction=()):
    """A robot that stands on feet at given heights; states as they are, and the problem's cones."""
    feet = ["FL_foot", "FR_foot", "RL_foot", "RR_foot"]
    contacts = [Contact(foot, target=place) for foot, place in zip(feet, places, strict=True)]
    system = PhasedDynamics(robot, 0.01, [Phase(contacts, HORIZON, held=True)])
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    problem = Problem(system, x0=x, horizon=HORIZON, running=[effort], terminal=[], during=friction(system, contacts))
    return known(problem, np.tile(x, (HORIZON + 1, 1)), np.zeros((HORIZON, system.nu)))


def test_each_foot_has_the_cone_of_its_own_friction_about_its_own_normal(go2):
    normal = np.array([0.6, 0.0, 0.8])

    def cones(system, contacts):
        first = friction_cone(system, contacts[:1], 0.4, 1.0)
        return {range(HORIZON): [first, friction_cone(system, contacts[1:3], 0.9, 1.0, normal=2.0 * normal)]}

    solution = standing(go2, np.zeros((4, 3)), cones)
    force = np.tile([0.0, 0.0, 40.0], (HORIZON, 1))
    scene = build(solution, forces={foot: force for foot in ("FL_foot", "FR_foot", "RR_foot")})
    assert not drawn(scene, "/mayne/contacts/RR_foot/cone")
    for foot, mu, axis in (("FL_foot", 0.4, [0.0, 0.0, 1.0]), ("FR_foot", 0.9, normal)):
        (cone,) = drawn(scene, f"/mayne/contacts/{foot}/cone")
        along = vertices(cone) @ np.array(axis)
        assert np.allclose(np.linalg.norm(vertices(cone), axis=1), np.hypot(along, mu * along), rtol=1e-4, atol=1e-6)
    assert "friction cones: μ = 0.4 to 0.9" in [entry.label for entry in scene.legend]


def test_normals_in_axes_of_a_frame_are_turned_with_it(rng, go2):
    robot = load("talos_legs")
    sole = "left_sole_link"
    contact = Contact(sole, "surface", reference="local")
    system = PhasedDynamics(robot, 0.01, [Phase([contact], HORIZON)])
    X = np.array([np.concatenate([robot.random_configuration(rng), np.zeros(robot.nv)]) for _ in range(HORIZON + 1)])
    held = friction_constraint(system, [contact], 0.5, normal=[0.0, 1.0, 1.0])
    problem = Problem(
        system, x0=X[0], horizon=HORIZON, running=[effort], terminal=[], constraints_at={range(HORIZON): [held]}
    )
    ((mu, axis),) = friction_cones(problem, system, X).values()
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, X[0, : robot.nq])
    turned = data.oMf[robot.frame_id(sole)].rotation @ [0.0, np.sqrt(0.5), np.sqrt(0.5)]
    assert mu == 0.5
    assert np.allclose(axis, turned, atol=1e-12)


def test_footholds_above_the_ground_stand_on_steps_that_hide_no_lower_one(go2):
    places = np.array([[0.2, 0.15, 0.1], [0.2, -0.15, 0.1], [-0.2, 0.15, -0.1], [0.15, -0.12, 0.05]])
    scene = build(standing(go2, places, lambda *_: {}), forces={})
    (steps,) = drawn(scene, "/mayne/steps")
    blocks = vertices(steps).reshape(3, -1, 3)
    footholds = places[places[:, 2] > -0.1]
    for block in blocks:
        low, high = block.min(axis=0), block.max(axis=0)
        (own,) = [place for place in places if np.allclose(place, [*0.5 * (low + high)[:2], high[2]], atol=1e-9)]
        assert np.isclose(low[2], -0.1)
        others = footholds[footholds[:, 2] < own[2]]
        assert not ((low[:2] < others[:, :2]) & (others[:, :2] < high[:2])).all(axis=1).any()
    assert not drawn(build(standing(go2, places * [1, 1, 0], lambda *_: {}), forces={}), "/mayne/steps")


def test_wheels_on_a_slope_roll_on_a_drawn_one():
    model = pin.Model()
    wheel = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "wheel")
    model.appendBodyToJoint(wheel, pin.Inertia.Random(), pin.SE3.Identity())
    model.addFrame(pin.Frame("hub", wheel, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    robot, normal = Robot(model), np.array([0.6, 0.0, 0.8])
    point = np.array([0.0, 0.0, 0.5])
    contact = Contact("hub", "rolling", point, radius=0.1, normal=normal)
    system = PhasedDynamics(robot, 0.01, [Phase([contact], HORIZON)])
    x = np.concatenate([robot.q0, np.zeros(6)])
    x[:3] = point + 0.1 * normal
    problem = Problem(system, x0=x, horizon=HORIZON, running=[effort], terminal=[])
    scene = build(known(problem, np.tile(x, (HORIZON + 1, 1)), np.zeros((HORIZON, system.nu))), forces={})
    (slope,) = drawn(scene, "/mayne/slopes")
    assert np.abs((vertices(slope) - point) @ normal).max() <= 1.001e-3 * scene.size
    assert not drawn(scene, "/mayne/ground/1")  # no level plane, the grid alone


def test_one_large_force_does_not_take_the_camera_away():
    problem = gaits.stand("go2")
    X, U = problem.guess
    solution = SimpleNamespace(X=X, U=U, problem=problem)
    force = np.tile([0.0, 0.0, 40.0], (len(U), 1))
    calm = build(solution, forces={"FL_foot": force})
    force[7, 2] = 1e5
    assert build(solution, forces={"FL_foot": force}).size < 4.0 * calm.size


def test_last_states_of_robots_on_feet_are_hidden_until_asked_for(go2):
    shown = {}
    for name, solution in (("feet", standing(go2, np.zeros((4, 3)), lambda *_: {})), ("arm", None)):
        plain = arm.reach(horizon=HORIZON)
        scene = build(known(plain, *moving(plain)) if solution is None else solution)
        (shown[name],) = [entry.shown for entry in scene.legend if entry.label == "its last state"]
    assert shown == {"feet": False, "arm": True}
    ghost = build(standing(go2, np.zeros((4, 3)), lambda *_: {}), ghost=go2.q0)
    assert [entry.shown for entry in ghost.legend if entry.paths == ("/mayne/ghost",)] == [True]


def test_earlier_iterations_show_no_limit_of_the_solution(tmp_path):
    plain = arm.reach(horizon=HORIZON)
    robot = plain.dynamics.robot
    clear = SphereClearance(robot, "tool0", 0.05, Sphere([0.5, 0.1, 0.4], 0.1))
    problem = replace(plain, constraints=[clear, JointLimits(robot, upper=3.0)])
    X, U = moving(problem)
    scene = build(known(problem, X, U, [(0, 2, 0, -1.0), (1, 2, 1, 3.0)]))
    earlier = variant(scene, problem.dynamics, Iterate(1, SimpleNamespace(cost=1.0, gradient=1.0), X))["messages"]
    ring = "/mayne/robot/2 shoulder_lift_joint/limit"
    for name in (("/mayne/obstacles/0/<object>", "material.color"), (ring, "visible")):
        at_solution, before = moves(scene.messages)[name], moves(earlier)[name]
        assert before[0][-1] == at_solution[0][-1]  # all clips end together
        assert len({str(value) for value in at_solution[1]}) == 2
        assert {str(value) for value in before[1]} == {str(at_solution[1][0])}
