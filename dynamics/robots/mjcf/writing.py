"""Robots as models of MuJoCo: bodies, joints and armature as they are, feet and ground as they are said to be.

MuJoCo's compiler refuses inertias that no body can have, and rounds others: masses and inertias are written into the
compiled model once more.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddp.errors import ModelError, positive
from ddp.protocols import Array
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, PRISMATIC, REVOLUTE, SPHERICAL, TRANSLATION
from dynamics.robots.found import Followers
from dynamics.robots.joints import subspace
from dynamics.robots.libraries import pin
from dynamics.robots.mjcf.compiling import import_mujoco
from dynamics.robots.mjcf.state_map import StateMap
from dynamics.robots.mjcf.states import FROM_OURS, TO_OURS, rotation
from dynamics.robots.model import Robot
from dynamics.robots.tree import Indices


class Foot(NamedTuple):
    """Foot at a frame of the robot: a sphere about its origin, or a box that stands on it.

    size [m]: a sphere's radius; half the length, the width and the height of a box.
    """

    frame: str
    size: tuple[float, ...]


class Relief(NamedTuple):
    """Ground that is not level, in a rectangle beyond which there is none.

    heights (r, c) [m]: of points that are evenly apart, rows along y, columns along x.
    center (2,), half (2,) [m]: of the rectangle, its middle and half its extents along x and y.
    """

    heights: Array
    center: Array
    half: Array


class Ground(NamedTuple):
    """Ground and its contacts.

    height [m]: of feet's frames when they stand.   friction: coefficient.
    softness [s]: time constant of contacts, MuJoCo's solref, which are critically damped.
    relief: what rises above and falls below the height; None for level ground.
    """

    height: float = 0.0
    friction: float = 0.7
    softness: float = 0.02
    relief: Relief | None = None


class World:
    """A robot in MuJoCo: model, and the states of both.

    robot; model: MuJoCo's ``MjModel``; spec: its ``MjSpec``.   floor [m]: height of the ground, None if there is none.
    """

    def __init__(
        self, robot: Robot, feet: Sequence[Foot] = (), ground: Ground | None = None, timestep: float = 1e-3,
        damping: bool = False, springs: bool = False, followers: Followers | None = None,
    ) -> None:  # fmt: skip
        """followers: joints that are held to others, stiffly."""
        if robot.loops:
            raise ModelError(f"{robot.name} has loops, which its model of MuJoCo would leave open")
        self.robot, self._mujoco = robot, import_mujoco()
        self.floor = None if ground is None else ground.height
        self.spec = _spec(self._mujoco, robot, feet, ground, positive("timestep", timestep))
        for name, (leader, factor, offset) in (followers or {}).items():
            _couple(self._mujoco, self.spec, name, leader, factor, offset)
        model = self.model = self.spec.compile()
        ids = [model.body(_body(robot, j)).id for j in range(1, robot.model.njoints)]
        self._feet = {model.geom(foot.frame).id: i for i, foot in enumerate(feet if ground else ())}
        _write_inertias(model, robot, ids)
        first = model.body_jntadr[ids]
        self._states = StateMap(robot, zip(model.jnt_qposadr[first], model.jnt_dofadr[first], strict=True))
        own, their = self._states.v
        model.dof_armature[their] = robot.model.armature[own]
        model.dof_damping[their] = robot.model.damping[own] if damping else 0.0
        if springs and robot.equipment.stiffness is not None:
            _write_springs(model, robot, self._states.v)
        self._mujoco.mj_setConst(model, self._mujoco.MjData(model))

    def body(self, joint: int) -> int:
        """MuJoCo's number of the body that joint 1, 2, ... of the robot moves."""
        return int(self.model.body(_body(self.robot, joint)).id)

    def data(self, q: Array, v: Array) -> Any:
        """Return MuJoCo's data in a state q (nq,), v (nv,) of the robot."""
        data = self._mujoco.MjData(self.model)
        self._states.write(q, v, data.qpos, data.qvel)
        self._mujoco.mj_forward(self.model, data)
        return data

    def state(self, data: Any) -> tuple[Array, Array]:
        """The state q (nq,), v (nv,) of the robot in MuJoCo's data."""
        return self._states.read(data.qpos, data.qvel)

    def acceleration(self, data: Any) -> Array:
        """The acceleration a (nv,) of the robot in MuJoCo's data."""
        (_, v), (own, their), a = self.state(data), self._states.v, np.empty(self.robot.nv)
        a[own] = data.qacc[their]
        for _, first, i, _, _ in self._states.free:
            turned = rotation(data.qpos[i + 3 : i + 7]).T @ a[first : first + 3]
            a[first : first + 3] = turned - np.cross(v[first + 3 : first + 6], v[first : first + 3])
        return a

    def apply(self, data: Any, tau: Array) -> None:
        """Have generalised forces tau (nv,) of the robot act from now on, along MuJoCo's axes of this moment."""
        own, their = self._states.v
        data.qfrc_applied[their] = tau[own]
        for _, first, i, k, _ in self._states.free:
            if tau[first : first + 3].any():
                R = pin.Quaternion(data.qpos[i + 3 : i + 7][TO_OURS]).matrix()
                data.qfrc_applied[k : k + 3] = R @ tau[first : first + 3]

    def push(self, data: Any, velocity: Array) -> None:
        """Add a velocity (3,) [m/s], in world axes, to the first free-flyer at once."""
        k = self._states.free[0][3]
        data.qvel[k : k + 3] += velocity

    def hit(self, data: Any, velocities: Array) -> None:
        """Add velocities (nv,) [rad/s, m/s] to those of the robot at once."""
        q, v = self.state(data)
        self._states.write(q, v + velocities, data.qpos, data.qvel)

    def pull(self, data: Any, joint: int, point: Array, force: Array) -> None:
        """Have a force (3,) [N], in world axes, act from now on, and no other one of these.

        It acts at a point (3,) [m] of the body that joint 1, 2, ... moves, in that joint's axes.
        """
        body = self.body(joint)
        data.xfrc_applied[:] = 0.0
        data.xfrc_applied[body, :3] = force
        data.xfrc_applied[body, 3:] = np.cross(self.place(data, joint, point) - data.xipos[body], force)

    def place(self, data: Any, joint: int, point: Array) -> Array:
        """Place in the world of a point (3,) [m] that is given in the axes of joint 1, 2, ..."""
        body = self.body(joint)
        return np.asarray(data.xpos[body] + data.xmat[body].reshape(3, 3) @ point)

    def heavier(self, joint: int, factor: float) -> None:
        """Multiply mass and inertia of the body that joint 1, 2, ... moves."""
        body = self.body(joint)
        self.model.body_mass[body] *= factor
        self.model.body_inertia[body] *= factor
        self._mujoco.mj_setConst(self.model, self._mujoco.MjData(self.model))

    def pressing(self, data: Any) -> Array:
        """Forces (m,) of all feet on the ground, across it [N]."""
        pressed, force = np.zeros(len(self._feet)), np.zeros(6)
        for i in range(data.ncon):
            foot = next(iter({*data.contact[i].geom.tolist()} & self._feet.keys()), None)
            if foot is not None:
                self._mujoco.mj_contactForce(self.model, data, i, force)
                pressed[self._feet[foot]] += force[0]
        return pressed

    def step(self, data: Any) -> None:
        """Move on by the time step."""
        self._mujoco.mj_step(self.model, data)


def _spec(mujoco: Any, robot: Robot, feet: Sequence[Foot], ground: Ground | None, timestep: float) -> Any:
    """Return the specification of bodies, joints, feet and ground."""
    spec, model = mujoco.MjSpec(), robot.model
    spec.modelname, spec.option.timestep = robot.name, timestep
    spec.option.gravity = model.gravity.linear
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # states that overflow stay so
    spec.compiler.balanceinertia = True
    bodies = [spec.worldbody]
    for j in range(1, model.njoints):
        place = model.jointPlacements[j]
        at = {"pos": place.translation, "quat": _quaternion(place.rotation)}
        body = bodies[model.parents[j]].add_body(name=_body(robot, j), **at)
        _add_joint(mujoco, robot, j, body)
        body.mass, body.inertia, body.explicitinertial, body.simple = 1.0, np.ones(3), True, False
        bodies.append(body)
    if ground is None:
        return spec
    solref, friction = np.array([ground.softness, 1.0]), np.array([ground.friction, 0.005, 0.0001])
    lowered = max((foot.size[0] for foot in feet if len(foot.size) == 1), default=0.0)
    plane = spec.worldbody.add_geom(name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05])
    plane.pos, plane.solref, plane.friction = [0.0, 0.0, ground.height - lowered], solref, friction
    plane.contype, plane.conaffinity = 1, 2
    if ground.relief is not None:
        _make_uneven(mujoco, spec, plane, ground.relief)
    for foot in feet:
        frame = model.frames[robot.frame_id(foot.frame)]
        geom = bodies[frame.parentJoint].add_geom(name=foot.frame, solref=solref, friction=friction)
        geom.contype, geom.conaffinity, geom.pos = 2, 1, frame.placement.translation
        if len(foot.size) == 1:
            geom.type, geom.size = mujoco.mjtGeom.mjGEOM_SPHERE, [foot.size[0], 0.0, 0.0]
        else:
            geom.type, geom.size = mujoco.mjtGeom.mjGEOM_BOX, foot.size
            geom.quat = _quaternion(frame.placement.rotation)
            geom.pos = frame.placement.act(np.array([0.0, 0.0, foot.size[2] - lowered]))
    return spec


def _make_uneven(mujoco: Any, spec: Any, plane: Any, relief: Relief) -> None:
    """Make a field of heights of a plane."""
    heights, (x, y) = relief.heights, relief.half
    low, rise = heights.min(), max(float(np.ptp(heights)), 1e-6)  # MuJoCo wants some
    rows, columns = heights.shape
    share = ((heights - low) / rise).astype(np.float32).ravel()
    spec.add_hfield(name="relief", nrow=rows, ncol=columns, size=[x, y, rise, 1.0], userdata=share)
    plane.type, plane.hfieldname = mujoco.mjtGeom.mjGEOM_HFIELD, "relief"
    plane.pos = [*relief.center, plane.pos[2] + low]


def _add_joint(mujoco: Any, robot: Robot, j: int, body: Any) -> None:
    """Give a body its joint; ModelError for joints that MuJoCo has not."""
    name, kind, kinds = robot.model.names[j], int(robot.tree.kind[j - 1]), mujoco.mjtJoint
    S = subspace(robot.model, j)
    if kind == FREE_FLYER and robot.model.parents[j] == 0:
        body.add_freejoint(name=name)
    elif kind == SPHERICAL:
        body.add_joint(name=name, type=kinds.mjJNT_BALL)
    elif kind in (REVOLUTE, CONTINUOUS) and not S[0, :3].any():
        body.add_joint(name=name, type=kinds.mjJNT_HINGE, axis=S[0, 3:])
    elif kind in (PRISMATIC, TRANSLATION):
        for i, axis in enumerate(S):
            body.add_joint(name=f"{name} {i}" if i else name, type=kinds.mjJNT_SLIDE, axis=axis[:3])
    else:
        raise ModelError(
            f"{robot.name}: joint {name!r} is a {robot.model.joints[j].shortname()}, which MuJoCo has not: expected"
            " revolute, prismatic, spherical and translation joints, and free-flyers on the world"
        )


def _couple(mujoco: Any, spec: Any, name: str, leader: str, factor: float, offset: float) -> None:
    """Hold a joint to another one, as stiffly as MuJoCo's steps allow."""
    held = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT, name1=name, name2=leader)
    held.data[:5] = [offset, factor, 0.0, 0.0, 0.0]
    held.solref, held.solimp[:2] = [2.0 * spec.option.timestep, 1.0], [0.9999, 0.9999]


def _write_inertias(model: Any, robot: Robot, ids: Sequence[int]) -> None:
    """Write masses and inertias in the axes of their ellipsoids."""
    for body, inertia in zip(ids, list(robot.model.inertias)[1:], strict=True):
        principal, axes = np.linalg.eigh(inertia.inertia)
        axes[:, 2] *= np.linalg.det(axes)
        model.body_mass[body], model.body_ipos[body], model.body_inertia[body] = inertia.mass, inertia.lever, principal
        model.body_iquat[body] = _quaternion(axes)
        model.body_sameframe[body] = 0  # MuJoCo would take the frames of body and inertia for one


def _write_springs(model: Any, robot: Robot, places: Indices) -> None:
    stiffness, rest = robot.equipment.stiffness, robot.equipment.springref
    assert stiffness is not None
    for own, their in zip(*places, strict=True):
        if stiffness[own] != 0.0:
            joint = model.dof_jntid[their]
            model.jnt_stiffness[joint] = stiffness[own]
            model.qpos_spring[model.jnt_qposadr[joint]] = 0.0 if rest is None else rest[own]


def _body(robot: Robot, joint: int) -> str:
    return f"body {robot.model.names[joint]}"


def _quaternion(R: Array) -> Array:
    return np.asarray(pin.Quaternion(np.asarray(R)).coeffs()[FROM_OURS])
