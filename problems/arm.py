"""Arms: reach a pose, reach for what is out of reach, throw.

The default robots and numbers are the reference problems whose costs the registry quotes; any other arm, by
its name, file or ``Robot``, takes its usual posture and a goal made for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import BatchTerm
from ddp.errors import ProblemError, as_array, suggesting
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from dynamics.robots import massless_joints
from dynamics.robots.joints import joint_index
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, check_rigid
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.constraints import TorqueLimits
from problems.costs import ControlCost, FramePose, FramePosition, FrameVelocity, StateCost
from problems.legs import frame_poses
from problems.obstacles import Capsule, CapsuleClearance, Sphere, SphereClearance

_UR5_START = (0.0, -1.2, 1.4, -1.77, -1.57, 0.0)
_UR5_GOAL = (1.6, -0.8, 0.9, -0.6, -0.8, 0.7)
_UR5_TORQUES = (20.0, 66.0, 18.0, 10.0, 5.0, 1.2)
_UR5_LINKS = (("forearm_link", "wrist_1_link"), ("wrist_1_link", "wrist_3_link"))
_UR5_SPHERES = (Sphere([0.45, 0.25, 0.12], 0.10), Sphere([0.20, 0.45, 0.42], 0.08), Sphere([0.00, 0.55, 0.05], 0.12))


@checks.weighing
def reach(
    robot: checks.RobotLike = "ur5",
    target: pin.SE3 | ArrayLike | None = None,
    q0: ArrayLike | None = None,
    frame: str | None = None,
    horizon: int = 100,
    dt: float = 0.01,
    control_weight: float = 1e-3,
    posture_weight: float = 1e-2,
    speed_weight: float = 0.1,
    position_weight: float = 1000.0,
    rotation_weight: float = 1000.0,
    final_speed_weight: float = 10.0,
) -> Problem:
    """Bring a frame to a pose and rest there after ``horizon * dt`` seconds (1 s), starting at rest.

    target: pin.SE3 or (4, 4); default, where the frame is after every joint has turned half a radian or more.
    q0 (nq,): start; default the robot's usual posture.   frame: default the tool ("tool0") or the last link.
    control_weight [1/(N m)²] is small because torques are tens of N m; posture_weight pulls to q0 [1/rad²],
    speed_weight [s²/rad²] keeps the motion smooth; position_weight [1/m²] and rotation_weight [1/rad²] make
    the end nearly exact.
    """
    arm = _fixed_arm(robot)
    ur5 = arm.name == "ur5"
    usual = _UR5_START if ur5 else arm.q0
    start = as_array("q0", usual if q0 is None else q0, (arm.nq,)).copy()
    tool = _tool(arm) if frame is None else frame
    if target is None:
        goal = np.array(_UR5_GOAL) if ur5 else _turned(arm, start)
        target = _pose(arm, tool, goal)
    system = RobotDynamics(arm, dt)
    rest = np.concatenate([start, np.zeros(arm.nv)])
    still = StateCost(system, rest, np.repeat([0.0, final_speed_weight], arm.nv))
    terminal = [FramePose(arm, tool, target, np.repeat([position_weight, rotation_weight], 3)), still]
    running = _effort(system, rest, control_weight, posture_weight, speed_weight)
    return Problem(system, running, terminal, rest, horizon)


@suggesting
def out_of_reach(
    robot: checks.RobotLike = "ur5",
    position: ArrayLike = (0.4, 1.2, 0.9),
    q0: ArrayLike | None = None,
    frame: str | None = None,
    horizon: int = 100,
    dt: float = 0.01,
) -> Problem:
    """Stretch towards a point that cannot be reached: 1.55 m from the base, for a UR5 whose reach is 0.95 m.

    The residual stays large, so that Gauss-Newton misses what curves the cost. position (3,) [m]; the rest as
    in `reach`.
    """
    target = pin.SE3(np.eye(3), as_array("position", position, (3,)).copy())
    return reach(robot, target, q0, frame, horizon, dt, rotation_weight=0.0)


@suggesting
def obstacles(
    robot: checks.RobotLike = "ur5",
    target: pin.SE3 | ArrayLike | None = None,
    q0: ArrayLike | None = None,
    frame: str | None = None,
    obstacles: Sequence[Capsule] | None = None,
    torque_limits: ArrayLike | None = None,
    radius: float = 0.05,
    horizon: int = 100,
    dt: float = 0.01,
) -> Problem:
    """Bring a frame to a pose and rest there, past spheres and capsules, with limited torques.

    obstacles: default three spheres close to the way there.   torque_limits (nv,) [N m]: default for a UR5 so small
    that they matter, else the model's.   radius [m]: of the ball about the frame and, for a UR5, of its forearm and
    wrist, that must stay clear.   The rest as in `reach`.
    """
    arm = _fixed_arm(robot)
    ur5 = arm.name == "ur5"
    plain = reach(arm, target, q0, frame, horizon, dt)
    tool = _tool(arm) if frame is None else frame
    if obstacles is None:
        if not ur5 and target is not None:
            raise ProblemError(f"obstacles: expected some for {arm.name} and this target, there are no default ones")
        obstacles = _UR5_SPHERES if ur5 else _in_the_way(arm, tool, plain.x0[: arm.nq], radius)
    clear: list[Constraint] = [SphereClearance(arm, tool, radius, obstacles)]
    if ur5:
        clear += [CapsuleClearance(arm, link, radius, obstacles) for link in _UR5_LINKS]
        torque_limits = _UR5_TORQUES if torque_limits is None else torque_limits
    limits = arm.ranges.effort if torque_limits is None else as_array("torque_limits", torque_limits, (arm.nv,))
    system = RobotDynamics(arm, dt)
    return replace(plain, constraints=[*clear, TorqueLimits(system, limits)], terminal_constraints=clear)


@checks.weighing
def throw(
    robot: checks.RobotLike = "panda",
    position: ArrayLike = (0.2, 0.5, 0.7),
    velocity: ArrayLike = (0.0, 0.0, 3.0),
    q0: ArrayLike | None = None,
    frame: str | None = None,
    horizon: int = 60,
    dt: float = 0.01,
    control_weight: float = 1e-3,
    state_weight: float = 1e-2,
    velocity_weight: float = 10.0,
    position_weight: float = 100.0,
) -> Problem:
    """Release at a point with a velocity after ``horizon * dt`` seconds (0.6 s), starting at rest.

    position (3,) of the frame in the world [m]; velocity (3,) of its origin in its own axes [m/s], its
    rotation free.
    frame: default the gripper's ("panda_hand_tcp"). Gripper fingers are locked. state_weight on posture
    [1/rad²] and speed [s²/rad²]; velocity_weight [s²/m²] and position_weight [1/m²] at the end.
    """
    arm = _fixed_arm(robot)
    arm = lock(arm, [name for name in arm.joint_names if "finger" in name])
    start = as_array("q0", arm.q0 if q0 is None else q0, (arm.nq,)).copy()
    hand = _tool(arm) if frame is None else frame
    system = RobotDynamics(arm, dt)
    rest = np.concatenate([start, np.zeros(arm.nv)])
    aim = np.concatenate([as_array("velocity", velocity, (3,)), np.zeros(3)])
    terminal = [
        FrameVelocity(arm, hand, aim, np.repeat([velocity_weight, 0.0], 3)),
        FramePosition(arm, hand, as_array("position", position, (3,)), position_weight),
    ]
    running = _effort(system, rest, control_weight, state_weight, state_weight)
    return Problem(system, running, terminal, rest, horizon)


def lock(robot: Robot, joints: list[str]) -> Robot:
    """Make some joints rigid, as in the robot's usual posture."""
    joints = checks.joints(robot, joints)
    if not joints:
        return robot
    fixed = [joint_index(robot.model, name) for name in joints]
    dofs = massless_joints.kept_dofs(robot.model, fixed)
    model, q0 = massless_joints.fix(robot.model, robot.q0, fixed)
    return Robot(model, q0, robot.source, robot.equipment.of_dofs(dofs), robot.loops)


def _effort(system: RobotDynamics, rest: Array, control: float, posture: float, speed: float) -> list[BatchTerm]:
    """The running terms: torques, distance from a state at rest, speed."""
    weights = np.repeat([posture, speed], system.robot.nv)
    return [ControlCost(np.zeros(system.nu), np.full(system.nu, control)), StateCost(system, rest, weights)]


def _fixed_arm(robot: checks.RobotLike) -> Robot:
    arm = checks.loaded(robot)
    if arm.is_floating:
        raise ProblemError(f"robot: expected an arm on a fixed base, got {arm.name} on a free-flyer")
    check_rigid(arm, ProblemError)
    return arm


def _tool(arm: Robot) -> str:
    """The frame at the end of an arm: a usual name, else the last link."""
    for name in ("tool0", "panda_hand_tcp", "tip"):
        if arm.model.existFrame(name):
            return name
    links = [f.name for f in arm.model.frames if f.type in (pin.FrameType.BODY, pin.FrameType.OP_FRAME)]
    if not links:
        raise ProblemError(f"frame: expected the name of one, {arm.name} has no link or site to take for its tool")
    return str(links[-1])


def _turned(arm: Robot, q: Array) -> Array:
    """Q with every joint turned half a radian towards the middle of its range."""
    middle = 0.5 * (arm.model.lowerPositionLimit + arm.model.upperPositionLimit)
    away = np.where(np.isfinite(middle) & (q > np.nan_to_num(middle)), -0.5, 0.5)
    step = np.repeat(away[arm.tree.iq], arm.tree.nj)
    return np.asarray(pin.integrate(arm.model, q, step))


def _in_the_way(arm: Robot, frame: str, q: Array, radius: float) -> list[Capsule]:
    """Three spheres below and above the way that a frame takes if all joints turn steadily to where `_turned` ends.

    They leave a ball of that radius [m] about the frame free where it begins and ends.
    """
    way, up = pin.difference(arm.model, q, _turned(arm, q)), np.array([0.0, 0.0, 0.1])
    start, *places, end = (
        _pose(arm, frame, pin.integrate(arm.model, q, t * way)).translation for t in (0.0, 0.3, 0.5, 0.7, 1.0)
    )
    spheres: list[Capsule] = []
    for place, side in zip(places, (-1.0, 1.0, -1.0), strict=True):
        centre = place + side * up
        room = min(np.linalg.norm(centre - start), np.linalg.norm(centre - end)) - radius - 0.005
        spheres.append(Sphere(centre, float(np.clip(room, 0.01, 0.08))))
    return spheres


def _pose(arm: Robot, frame: str, q: Array) -> pin.SE3:
    checks.frame_name(arm, frame)
    return frame_poses(arm, q, [frame])[0]
