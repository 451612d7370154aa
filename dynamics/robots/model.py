"""Robots: read by Pinocchio, compiled once into flat arrays for the kernels."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import DDPError, ModelError, as_array, choice, flag, instance, nearest, numbers, said, suggesting
from ddp.protocols import Array, copied
from dynamics.geometry.joint_motion import FREE_FLYER
from dynamics.robots import joints, loading, loop, massless_joints, omissions, plausible, urdf
from dynamics.robots.equipment import Equipment, checked, pairs_of_limits
from dynamics.robots.found import Found, Source
from dynamics.robots.joints import UNIT_NUMBERS, effort_limits
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.tree import Indices, Tree, compiled


class Robot:
    """A robot: Pinocchio's model and its compiled arrays.

    name; nq, nv: numbers in a configuration and in its tangent; joint_names; model: the ``pinocchio.Model``;
    tree: the compiled arrays; q0: a usual posture (the file's reference configuration, else ``joints.rest``).
    equipment: actuators and springs that the file describes; ModelError if they do not fit the joints.
    handle: what kernels that know rods are given of the tree; room: numbers of working memory that rods take.
    branches: parts of the tree that carry frames, as far as they have been asked for, see `dynamics.quantities.frames`.
    loops: pairs of frames that are held together, which implicit steps keep; q0 is made to close them. ModelError if
    they cannot be closed, or if one holds what others hold.   held: their arrays, for kernels.
    What is compiled stays: changes of ``model`` after this (gravity, inertias) need a new ``load(model)``, which solves
    tell of.
    """

    room = 0
    loops: tuple[Loop, ...] = ()
    _sent: bytes
    _of: tuple[Robot, Array]
    _first: Array

    def __init__(
        self, model: pin.Model, q0: Array | None = None, source: Source | None = None,
        equipment: Equipment | None = None, loops: Iterable[Loop] = (),
    ) -> None:  # fmt: skip
        instance("model", model, pin.Model, "a pinocchio.Model", ModelError)
        self.model: pin.Model = joints.expanded(model)
        self.model.name, self.source = model.name or "robot", source
        tree = compiled(self.model)
        self.equipment = checked(Equipment() if equipment is None else equipment, self.model, tree.kind)
        for name in ("stiffness", "springref"):
            if (given := getattr(self.equipment, name)) is not None:
                setattr(tree, name, given)
        self.tree, self.handle = tree, tree.handle
        self._resisting: dict[tuple[bool, bool], Tree] = {}
        self.branches: dict[str, tuple[Any, Any]] = {}
        if q0 is None:
            self.q0 = joints.rest(self.model, source.followers if source is not None else None)
        else:
            self.q0 = as_array("q0", q0, (model.nq,), ModelError).copy()
        if not pin.isNormalized(self.model, self.q0, 1e-6):
            raise ModelError(f"q0: expected unit quaternions (x, y, z, w), got {numbers(self.q0)}")
        self._close(loops)

    def _close(self, loops: Iterable[Loop]) -> None:
        """Enter loops, and their arrays for kernels, and make q0 close them."""
        self.loops = loop.given(self.mechanism, loops)
        if self.loops:
            self.q0 = self.closed(self.q0)
        self.held = loop.compile_loops(self.mechanism, self.tree.previous, self.loops, self.q0)

    @property
    def _joints(self) -> pin.Model:
        """Pinocchio's model of the joints, by their numbers in q and v."""
        return self.model

    @property
    def mechanism(self) -> loop.Mechanism:
        """The bodies, as loops see them."""
        return loop.Mechanism(self.model)

    @cached_property
    def model(self) -> pin.Model:  # type: ignore[no-redef]
        """Pinocchio's model; of a robot that was sent here, or has other masses, made when it is asked for."""
        if "_sent" in vars(self):
            return pickle.loads(self._sent)
        other, masses = self._of
        model = other.model.copy()
        for body, mass in enumerate(masses.tolist()):
            link = model.inertias[body + 1]
            if mass > 0.0:  # of inertias that round to less than none, too, which a new one may not have
                link.inertia, link.mass = link.inertia * (mass / link.mass), mass
        return model

    @property
    def modelled(self) -> Robot | None:
        """The robot whose `model` is there: itself, or the one of other masses it was made of; None without one."""
        if "model" in vars(self):
            return self
        return self._of[0].modelled if "_of" in vars(self) else None

    @property
    def name(self) -> str:
        return str(self._joints.name)

    @cached_property
    def nq(self) -> int:
        return self.tree.nq

    @cached_property
    def nv(self) -> int:
        return self.tree.nv

    @property
    def joint_names(self) -> list[str]:
        return list(self._joints.names)[1:]

    @property
    def ranges(self) -> joints.Ranges:
        """Limits of all joints, of positions in the order of q, of velocities and efforts in that of v."""
        return joints.ranges(self._joints)

    def numbers_of(self, joint: str) -> tuple[range, range]:
        """Which numbers of q and which of v a joint has; ModelError with the nearest names if there is none."""
        choice("joint", joint, self.joint_names, f"{self.name} has no joint", ModelError)
        tree, b = self.tree, self.joint_names.index(joint)
        last = b + 1 == tree.nb
        iq, iv = int(tree.iq[b]), int(tree.iv[b])
        return range(iq, self.nq if last else int(tree.iq[b + 1])), range(iv, iv + int(tree.nj[b]))

    @property
    def is_hybrid(self) -> bool:
        """Whether it has elastic rods: kernels are compiled for such robots apart."""
        return self.room > 0

    @cached_property
    def unit_numbers(self) -> list[tuple[int, int, int]]:
        """Joint, first and past the last of the numbers in q that have length one: quaternions, (cos, sin)."""
        kinds = enumerate(zip(self.tree.kind.tolist(), self.tree.iq.tolist(), strict=True))
        spans = ((b, i, UNIT_NUMBERS.get(kind)) for b, (kind, i) in kinds)
        return [(b, i + span.start, i + span.stop) for b, i, span in spans if span]

    @cached_property
    def unit_spans(self) -> Indices:
        """First and past the last of these numbers, (n, 2), for kernels."""
        return np.array([span[1:] for span in self.unit_numbers], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def floating_dofs(self) -> Indices:
        """The degrees of freedom of free-flyers on the world: nothing can drive them but what they meet."""
        tree = self.tree
        free = (tree.kind == FREE_FLYER) & (tree.parent < 0)
        found = np.flatnonzero(free[tree.body])
        found.flags.writeable = False
        return found

    @property
    def is_floating(self) -> bool:
        """Whether a body floats in the world."""
        return len(self.floating_dofs) > 0

    @property
    def actuation(self) -> Array:
        """S (nv, nu), τ = S u [N, N m per unit of control]: the file's actuators.

        If it describes none: one control for each degree of freedom, but for those of a free-flyer on the world
        (unless there is nothing else).
        """
        return self._actuation.copy()

    @cached_property
    def _actuation(self) -> Array:
        if self.equipment.actuation is not None and self.equipment.drives:
            return self.equipment.actuation
        return np.eye(self.nv)[:, self._driven]

    @property
    def control_limits(self) -> Array:
        """Lower and upper limit (nu, 2) of the controls of ``actuation``, ±inf where there is none.

        Those of the file's actuators; if it describes none, joints' limits of effort [N, N m], where an effort of zero
        says that none was given. A problem takes them as ``control_limits=robot.control_limits.T``.
        """
        if not self.equipment.drives:
            return effort_limits(self.model)[self._driven]
        return pairs_of_limits("control_limits", self.equipment.control_limits, self._actuation.shape[1], ModelError)

    @property
    def _driven(self) -> Indices:
        """The degrees of freedom that have a control where no actuators are described."""
        joints = np.delete(np.arange(self.nv), self.floating_dofs)
        return joints if len(joints) else np.arange(self.nv)

    def resisting(self, damping: bool, springs: bool) -> Tree:
        """The tree whose joints have viscous friction and springs only where asked for."""
        if (damping, springs) not in self._resisting:
            none = np.zeros(self.nv)
            self._resisting[damping, springs] = self.tree.replace(
                damping=self.tree.damping if damping else none, stiffness=self.tree.stiffness if springs else none
            )
        return self._resisting[damping, springs]

    @property
    def masses(self) -> Array:
        """Mass (bodies,) [kg] of each body, with all that is fixed to it, in the order of ``joint_names``."""
        return self.tree.inertia[:, 0].copy()

    def with_masses(self, masses: ArrayLike) -> Robot:
        """Copy whose bodies have other masses (bodies,) [kg], their inertias in proportion, centres where they are."""
        check_rigid(self)
        now = self.masses
        wanted = as_array("masses", masses, now.shape, ModelError)
        if (bad := (wanted < 0.0) | ((wanted == 0.0) != (now == 0.0))).any():
            body = int(np.argmax(bad))
            what = "a positive number [kg]" if now[body] > 0.0 else "0, it has none"
            raise ModelError(f"masses[{body}] ({self.joint_names[body]}): expected {what}, got {wanted[body]}")
        first = self._first if "_first" in vars(self) else self.tree.inertia
        ratio = np.divide(wanted, first[:, 0], out=np.ones_like(now), where=now > 0.0)
        tree = self.tree.replace(inertia=first * ratio[:, None])
        assert self.tree.weightless is not None
        tree.weightless = self.tree.weightless.replace(inertia=tree.inertia)
        return copied(
            self, "model", "_visuals", "_sent", tree=tree, handle=tree.handle, branches=self.branches.copy(),
            _resisting={}, _of=(self, wanted.copy()),
            _first=first,  # or else inertias would depend on the masses before, by rounding
        )  # fmt: skip

    @property
    def unvaried(self) -> Robot:
        """The robot with the masses that it had before `with_masses`."""
        return self.with_masses(self._first[:, 0]) if "_first" in vars(self) else self

    def neutral(self) -> Array:
        """The configuration (nq,) of zero displacements."""
        return np.asarray(pin.neutral(self._joints))

    def random_configuration(self, rng: np.random.Generator) -> Array:
        """A configuration (nq,): angles and lengths uniform within limits (else in ±π, ±1), attitudes uniform."""
        instance("rng", rng, np.random.Generator, "a numpy.random.Generator")
        model, q = self._joints, self.neutral()
        lower, upper = model.lowerPositionLimit, model.upperPositionLimit
        for b, joint in enumerate(list(model.joints)[1:]):
            own = slice(joint.idx_q, joint.idx_q + joint.nq)
            q[own] = self._random_numbers(b, lower[own], upper[own], rng)
        return q

    def _random_numbers(self, body: int, lower: Array, upper: Array, rng: np.random.Generator) -> Array:
        """Random numbers in q of the joint that carries a body."""
        return joints.random_numbers(int(self.tree.kind[body]), lower, upper, rng)

    @property
    def frame_names(self) -> list[str]:
        """Names of all frames."""
        return [frame.name for frame in self.model.frames]

    def frame_id(self, name: str) -> int:
        """Pinocchio's index of a frame; ModelError with the nearest names if there is none."""
        if not self.has_frame(name):
            raise ModelError(f"frame: {self.name} has no frame {said(name)}; {nearest(name, self.frame_names)}")
        return int(self.model.getFrameId(name))

    def carrier(self, name: str) -> tuple[int, Array, int | None]:
        """Body that carries a frame, -1 for the world; pose (12,) on it; of a frame within a rod, the rod's point."""
        found = self.model.frames[self.frame_id(name)]
        pose = np.concatenate([found.placement.rotation.ravel(), found.placement.translation])
        return int(found.parentJoint) - 1, pose, None

    def has_frame(self, name: object) -> bool:
        """Whether a frame is called so."""
        known = isinstance(name, str) and name.isprintable()
        return known and (name in self.branches or bool(self.model.existFrame(name)))

    @cached_property
    def _visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        return loading.visuals(self.model, self.source)

    def visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        """The shapes to draw, and the names of the meshes that are missing."""
        return self._visuals

    def collisions(self) -> tuple[pin.GeometryModel, list[str]]:
        """The shapes for contacts, those to draw where there are none, and the names of meshes that are missing."""
        found = loading.visuals(self.model, self.source, "collision")
        return found if found[0].ngeoms else self._visuals

    def identity(self) -> tuple[object, ...]:
        """All that decides how it moves, as plain data and arrays."""
        return self.name, self.tree, self.q0, self.equipment, self.loops

    def __getstate__(self) -> dict[str, object]:
        others = "model", "handle", "_visuals", "_of"  # the first as bytes, the others are of this process
        kept = {name: value for name, value in vars(self).items() if name not in others}
        return kept if "_sent" in kept else kept | {"_sent": pickle.dumps(self.model, protocol=5)}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.handle = self.tree.handle

    def closed(self, q: ArrayLike) -> Array:
        """The configuration near q (nq,) in which all loops are closed; ModelError if none is found."""
        start = as_array("q", q, (self.nq,), ModelError)
        if (found := loop.closed(self.mechanism, self.loops, start)) is None:
            raise ModelError(f"{self.name}: no configuration near q = {numbers(start)} closes its loops")
        return found

    def __repr__(self) -> str:
        return f"Robot({self.name!r}, nq={self.nq}, nv={self.nv})"


@suggesting
def load(
    source: str | os.PathLike[str] | pin.Model | pin.RobotWrapper, root: str | None = None,
    massless: str | None = None, strict: bool = False,
) -> Robot:  # fmt: skip
    """A robot from a name of example-robot-data, a file, its text, a ``pinocchio.Model`` or ``RobotWrapper``.

    source: a file is .urdf, .xml for MJCF, or .sdf. A string that begins with "<" is the text of one; meshes that it
    names by relative paths are looked for in the working folder when they are drawn.
    root: "fixed" or "free-flyer", the joint between world and base; default: the usual one of a named robot, fixed
    for files but for MJCF, which says itself what is free, and keeps a base that is. A model has its own.
    massless: joints that move no mass and no rotor make the mass matrix singular; by default they are refused, and
    those that move mass without inertia, as a rod about itself, are warned of. "fixed": the degrees of freedom of both
    are removed, their links stay as frames. "ignore": they are kept. Inverse dynamics, kinematics and drawing then work
    as in Pinocchio, the mass matrix is singular, and what needs its inverse (forward dynamics, ``RobotDynamics``)
    raises an error or diverges.
    strict: refuse a robot of which the dynamics leave something out, instead of warning. What is only odd, such as
    elements that the format does not have or limits of zero, is warned of and not refused.

    Raises ModelError for what cannot be read or is not supported, and says how to remodel it. A URDF must be one tree
    of links with finite numbers; prefixes of elements that it does not declare are accepted, xacro has to be expanded.
    Warns of inertias that no body can have, by link, and of a mass matrix that is too ill-conditioned for second
    derivatives to be accurate.

    ``robot.q0`` is the reference posture of a named robot or a RobotWrapper's q0; else the neutral configuration, with
    revolute and prismatic joints clipped into their limits, and joints that mimic others where those ask for.

    SDF is read up to version 1.6: rotors of gearboxes become armature and motors, joints of a link beyond its first
    become loops. "cassie" is such a model. Static models, links that gravity leaves alone and other parts that would
    change the motion are named in the warning below.

    Universal, spherical ZYX and composite joints become chains with the same q and v, so that ``robot.model`` has more
    joints than the source. Rotor inertia becomes armature. Where a link and a joint have one name, it is the frame of
    the link, and that of the joint is called ``name_joint``.

    MJCF is read by MuJoCo's own compiler (the extra ``mayne[mujoco]``): q is MuJoCo's qpos and v its qvel, but that
    quaternions are (x, y, z, w) and a free joint's linear velocity is in the body's axes. q0 is the keyframe called
    "home", else the first, else qpos0. Sites are frames, geoms the shapes to draw. Motors become
    ``equipment.actuation`` and their ranges of control and force ``equipment.control_limits``. The control of a
    position or velocity servo, a muscle or another actuator with a law of its own is its force [N, N m], within its
    range of force, for which `mayne.interop.mujoco_controls` finds the targets; an actuator whose moment depends on the
    configuration has no control.

    One warning names, with their lines where MuJoCo knows them, the elements whose effects are not modelled: dry
    friction; <mimic> and, in MJCF, linear <joint> of <equality>, which `MimicDynamics` has; other equality constraints
    of joints and tendons, tendons, ranges of ball joints, gravity compensation, fluids, control laws, springs that are
    not linear, flexes and plugins. ``strict`` refuses these. The log, at INFO for MJCF, names viscous damping and
    springs, which ``RobotDynamics`` has and inverse and forward dynamics have not, and equality constraints of bodies,
    <connect> and <weld>, which are ``robot.loops``: implicit steps hold them exactly.
    """
    if root is not None and not (isinstance(root, str) and root in ("fixed", "free-flyer")):
        raise ModelError(f"root: expected 'fixed' or 'free-flyer', got {said(root)}")
    if massless is not None and not (isinstance(massless, str) and massless in massless_joints.OPTIONS):
        raise ModelError(f"massless: expected 'fixed' or 'ignore', got {said(massless)}")
    if isinstance(source, (pin.Model, pin.RobotWrapper)):
        if root is not None:
            raise ModelError(f"root: a pinocchio.{type(source).__name__} already has its root joint; leave root out")
        found = loading.read_model(source)
    elif not isinstance(source, (str, os.PathLike)) or source == "":
        raise ModelError(f"source: expected a name, a path or a pinocchio.Model, got {said(source)}")
    else:
        found = loading.read(source, root)
    return _ready(found, massless, flag("strict", strict, ModelError))


def check_robot(robot: object, error: type[DDPError] = ModelError, field: str = "robot") -> None:
    """Raise ``error`` for what is no Robot, a name or a pinocchio.Model among them."""
    if not isinstance(robot, Robot):
        has = ", which has a .robot" if isinstance(getattr(robot, "robot", None), Robot) else ""
        raise error(f"{field}: expected a Robot from mayne.load, got {said(robot)}{has}")


def check_rigid(robot: Robot, error: type[DDPError] = ModelError) -> None:
    """Raise ``error`` for a robot with rods."""
    check_robot(robot, error)
    if robot.is_hybrid:
        raise error(f"robot: expected one of rigid bodies, got {robot.name}, which has rods")


def _ready(found: Found, massless: str | None, strict: bool) -> Robot:
    """The robot of a model of our own, its actuators seen to and its inertias checked."""
    model, q0, source, equipment, left_out, loops, _ = found
    urdf.reflect_rotors(model)
    joints.name_frames_apart(model)
    robot = Robot(model, q0, source, equipment, loops)
    joints.check_limits(robot.model)
    weightless = massless_joints.find(robot.model, robot.q0)
    if massless is None and (empty := massless_joints.carrying_no_mass(robot.model, weightless)):
        massless_joints.refuse(robot.model, empty)
    if weightless and massless == "fixed":
        kept = massless_joints.kept_dofs(robot.model, weightless)
        robot = Robot(
            *massless_joints.fix(robot.model, robot.q0, weightless), source, robot.equipment.of_dofs(kept), loops
        )
    document = None if source is None else source.document
    once = source is not None and source.is_named
    if left_out is None:
        left_out = urdf.left_out(robot.model, document)
    omissions.announce(robot.name, left_out, strict, once)
    rng = np.random.default_rng(0)  # so that the postures beside the usual one are always the same
    postures = [robot.q0, *(robot.random_configuration(rng) for _ in range(3))]
    if weightless and massless == "ignore":
        postures = []
    plausible.announce(robot.model, document, postures, once)
    return robot
