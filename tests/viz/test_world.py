"""A solution's scene has what its problem knows, where it is, and shows when it holds the motion."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from pages import at, held, moves, vertices

import viz
from dynamics import load
from dynamics.phases.reaction import ground_forces
from problems import arm, gaits
from problems.constraints import SelfClearance
from problems.costs import CenterOfMass, FramePosition
from problems.obstacles import Capsule, Sphere, SphereClearance
from viz.details import HELD, center_of_mass
from viz.iterations import Iterate, variant
from viz.robots import kinematics
from viz.scene import build
from viz.world import world_of

HORIZON = 8


@pytest.fixture(scope="module")
def reach():
    """A UR5's problem with a clearance, limits of torque and a solved trajectory made up."""
    plain = arm.reach(horizon=HORIZON)
    robot = plain.dynamics.robot
    clear = SphereClearance(robot, "tool0", 0.05, [Sphere([0.5, 0.1, 0.4], 0.1), Capsule([1, 0, 0], [1, 0, 1], 0.2)])
    aims = [CenterOfMass(robot, [0.0, 0.1, 0.2], 1.0), FramePosition(robot, "wrist_1_link", [0.0, 0.0, 1.0], 1.0)]
    return replace(plain, constraints=[clear], control_limits=(-10.0, 10.0), terminal=[*plain.terminal, *aims])


@pytest.fixture(scope="module")
def solved(reach):
    X = np.tile(reach.x0, (HORIZON + 1, 1))
    X[:, 0] = np.linspace(0.0, 1.0, HORIZON + 1)
    U = np.zeros((HORIZON, 6))
    U[2:5, 1] = 10.0
    multipliers = np.zeros((HORIZON + 1, 2))
    multipliers[3:5, 0] = -4.0
    names = [str(name) for name in reach.dynamics.robot.model.names][1:]
    found = reach.residuals(X, U, multipliers.ravel())
    known = {"multipliers": multipliers.ravel(), "residuals": lambda: found, "u": SimpleNamespace(names=names)}
    return SimpleNamespace(X=X, U=U, problem=reach, **known)


@pytest.fixture(scope="module")
def scene(solved):
    return build(solved)


def test_targets_stand_where_terms_and_constraints_have_them(reach, solved, scene):
    world = world_of(solved, reach.dynamics, solved.X, solved.U)
    marks = {mark.frame: mark for mark in world.targets}
    assert set(marks) == {"tool0", "", "wrist_1_link"}
    assert np.array_equal(marks["wrist_1_link"].start, [0.0, 0.0, 1.0])
    pose = reach.terminal[0].target
    assert np.array_equal(marks["tool0"].rotation, pose.rotation)
    drawn = [m for m in scene.messages if m["path"].startswith("/mayne/targets/") and m["type"] == "set_object"]
    centers = np.array([vertices(m).mean(axis=0) for m in drawn])
    for mark in world.targets:
        assert np.linalg.norm(centers - mark.start, axis=1).min() < 1e-9


def test_obstacles_are_red_while_they_hold_and_only_then(solved, scene):
    messages = scene.messages
    name = ("/mayne/obstacles/0/<object>", "material.color")
    color = moves(messages)[name]
    assert name in held(messages)
    dt = solved.problem.dynamics.dt
    red = [np.allclose(at(color, k * dt), HELD) for k in range(HORIZON + 1)]
    assert red == [k in (3, 4) for k in range(HORIZON + 1)]
    assert ("/mayne/obstacles/1/<object>", "material.color") not in moves(messages)  # its multipliers are zero


def test_an_obstacle_that_moves_is_at_one_place_at_a_time(reach):
    robot, still = reach.dynamics.robot, Sphere([2.0, 0.0, 0.0], 0.1)
    places = {k: Sphere([1.0, 0.1 * k, 0.5], 0.1) for k in (1, 3, 4)}
    at_knots = {k: [SphereClearance(robot, "tool0", 0.05, [ball])] for k, ball in places.items()}
    problem = replace(reach, constraints=[SphereClearance(robot, "tool0", 0.05, [still])], constraints_at=at_knots)
    X = np.tile(reach.x0, (HORIZON + 1, 1))
    drawn = build(SimpleNamespace(X=X, U=np.zeros((HORIZON, 6)), problem=problem))
    shown = {name[0]: values for name, values in moves(drawn.messages).items() if name[1] == "visible"}
    obstacles = [m for m in drawn.messages if m["path"].startswith("/mayne/obstacles/") and m["type"] == "set_object"]
    centers = {m["path"]: vertices(m).mean(axis=0) for m in obstacles}
    for k, ball in enumerate((1, 1, 1, 3, 4, 4, 4, 4, 4)):
        there = [path for path, values in shown.items() if at(values, k * reach.dynamics.dt)]
        assert len(there) == 1
        assert np.allclose(centers[there[0]], places[ball].center, atol=1e-9)
    assert len(shown) == 3  # the one that all knots have stays
    told = variant(drawn, reach.dynamics, Iterate(1, SimpleNamespace(cost=1.0, gradient=1.0), X))["messages"][-1]
    assert {one["path"] for one in told["animations"]} >= set(shown)


def test_a_ring_shows_which_control_is_at_its_limit(solved, scene):
    messages = scene.messages
    (name,) = [name for name in moves(messages) if name[0].endswith("/limit")]
    assert name == ("/mayne/robot/2 shoulder_lift_joint/limit", "visible")
    shown = [bool(at(moves(messages)[name], k * solved.problem.dynamics.dt)) for k in range(HORIZON)]
    assert shown == [2 <= k < 5 for k in range(HORIZON)]


def test_the_centre_of_mass_is_pinocchios(rng, reach):
    robot = reach.dynamics.robot
    Q = rng.uniform(-1.0, 1.0, size=(5, 6))
    places, _ = kinematics(robot.model, Q, [])
    data = robot.model.createData()
    expected = [pin.centerOfMass(robot.model, data, q).copy() for q in Q]
    assert np.allclose(center_of_mass(robot.model, places), expected, atol=1e-12)


def test_what_is_hidden_at_first_is_in_the_scene_and_in_the_legend(scene):
    hidden = {entry.label: entry for entry in scene.legend if not entry.shown}
    assert {"centre of mass and its path", "solids that constraints keep apart", "wireframe"} <= set(hidden)
    assert hidden["wireframe"].switches == "wireframe"
    paths = {m["path"] for m in scene.messages if m["type"] == "set_object"}
    for entry in hidden.values():
        assert all(any(path.startswith(one) for path in paths) for one in entry.paths)


def test_the_solids_are_those_that_constraints_measure(reach):
    robot = reach.dynamics.robot
    (body,) = reach.constraints[0].bodies()
    assert (robot.model.names[body.joint], body.radius) == ("wrist_3_joint", 0.05)
    own = SelfClearance(robot)
    assert {one.joint for one in own.bodies()} <= set(range(robot.model.njoints))


def test_paths_are_those_of_frames_that_all_robots_have(solved):
    panda = load("panda")
    alike = SimpleNamespace(dynamics=SimpleNamespace(robot=panda, dt=0.1))
    other = SimpleNamespace(X=panda.q0[None], U=np.zeros((0, panda.nv)), problem=alike)
    assert "tool0" in build({"a": solved, "b": solved}).traced
    assert build({"a": solved, "b": other}).traced == ()


def test_what_is_given_stands_instead_of_what_the_problem_knows(solved):
    other = build(solved, frames=[], obstacles=[viz.Sphere([2.0, 0.0, 0.0], 0.3)])
    assert not [m for m in other.messages if m["path"].startswith("/mayne/traces")]
    (drawn,) = [m for m in other.messages if m["path"].startswith("/mayne/obstacles")]
    assert np.allclose(vertices(drawn).mean(axis=0), [2.0, 0.0, 0.0], atol=1e-9)


def test_a_gait_brings_its_ground_forces_cones_and_footholds():
    problem = gaits.trot("go2")
    X, U = problem.guess
    solution = SimpleNamespace(X=X, U=U, problem=problem)
    scene = build(solution)
    paths = {m["path"] for m in scene.messages}
    feet = {contact.frame for phase in problem.dynamics.phases for contact in phase.contacts}
    for foot in feet:
        assert {f"/mayne/traces/{foot}", f"/mayne/contacts/{foot}/cone"} <= paths
    assert "/mayne/footholds" in paths
    assert "/mayne/ground/1" in paths  # the plane under the grid
    assert len(world_of(solution, problem.dynamics, X, U).footholds) > len(feet)
    assert not [path for path in {m["path"] for m in build(solution, forces={}).messages} if "contacts" in path]


def test_a_gait_is_drawn_up_to_states_from_which_it_cannot_be_stepped():
    problem = gaits.trot("go2", speed=3.0)  # its legs do not reach
    X, U = problem.guess
    known = ground_forces(problem.dynamics, X, U)
    assert any(np.isnan(force).any() for force in known.values())
    shown = world_of(SimpleNamespace(X=X, U=U, problem=problem), problem.dynamics, X, U).forces
    for foot, force in known.items():
        assert np.array_equal(shown[foot], np.nan_to_num(force))
    assert build(SimpleNamespace(X=X, U=U, problem=problem)).messages
