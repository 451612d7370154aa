"""Kinds of joint: which of Pinocchio's they are, their numbers, and chains of joints in place of compound ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from ddp.errors import ModelError
from ddp.protocols import Array
from ddp.tracing.groups import SE3, SO3, Euclidean, Part, UnitCircle, UnitPlane
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, PLANAR, PRISMATIC, REVOLUTE, SPHERICAL, TRANSLATION
from dynamics.robots.libraries import pin

NO_LIMIT = 1e10
"""Pinocchio stands in for a missing limit by the largest double, or infinity."""


class Ranges(NamedTuple):
    """Limits of joints: positions from lower to upper (nq,) [rad, m], sizes of velocities (nv,), efforts (nv, 2).

    Infinite where there is none.
    """

    lower: Array
    upper: Array
    velocity: Array
    effort: Array


def ranges(model: pin.Model) -> Ranges:
    """The limits of a model's joints; quaternions and (cos, sin) have none, where Pinocchio writes 1.01."""
    given = model.lowerPositionLimit, model.upperPositionLimit, model.velocityLimit
    own = [np.where(np.abs(one) < NO_LIMIT, one, np.copysign(np.inf, one)) for one in given]
    for joint in list(model.joints)[1:]:
        unit = UNIT_NUMBERS.get(_KINDS.get(joint.shortname(), REVOLUTE))
        if unit is not None:
            numbers = slice(joint.idx_q + unit.start, joint.idx_q + unit.stop)
            own[0][numbers], own[1][numbers] = -np.inf, np.inf
    return Ranges(own[0], own[1], own[2], effort_limits(model))


def effort_limits(model: pin.Model) -> Array:
    """Lower and upper limit (nv, 2) of each joint's force [N, N m]; infinite where the file gives none.

    None are numbers beyond 1e10, Pinocchio's for a missing one, and pairs with nothing between them: ``effort="0"`` in
    a URDF, where exporters write zeros for what they do not know. An upper limit alone, all that Pinocchio 4 writes for
    ``model.effortLimit = ...``, is one of size.
    """
    lower, upper = np.array(model.lowerEffortLimit), np.array(model.upperEffortLimit)
    lower = np.where((lower <= -NO_LIMIT) & (upper > 0.0) & (upper < NO_LIMIT), -upper, lower)
    given = lower < upper
    lower = np.where(given & (lower > -NO_LIMIT), lower, -np.inf)
    upper = np.where(given & (upper < NO_LIMIT), upper, np.inf)
    return np.stack([lower, upper], axis=1)


_KINDS = {
    **{f"JointModelR{axis}": REVOLUTE for axis in ("X", "Y", "Z", "evoluteUnaligned")},
    **{f"JointModelH{axis}": REVOLUTE for axis in ("X", "Y", "Z", "elicalUnaligned")},
    **{f"JointModelRUB{axis}": CONTINUOUS for axis in "XYZ"},
    "JointModelRevoluteUnboundedUnaligned": CONTINUOUS,
    **{f"JointModelP{axis}": PRISMATIC for axis in ("X", "Y", "Z", "rismaticUnaligned")},
    "JointModelFreeFlyer": FREE_FLYER,
    "JointModelSpherical": SPHERICAL,
    "JointModelPlanar": PLANAR,
    "JointModelTranslation": TRANSLATION,
}


class Numbers(NamedTuple):
    """Numbers of a joint in q and v: the space of q, and names of those of q and of v, where there are several."""

    space: Part
    positions: tuple[str, ...]
    velocities: tuple[str, ...] = ()


NUMBERS = {
    FREE_FLYER: Numbers(SE3(), ("x", "y", "z", "qx", "qy", "qz", "qw"), ("vx", "vy", "vz", "wx", "wy", "wz")),
    SPHERICAL: Numbers(SO3(), ("qx", "qy", "qz", "qw"), ("wx", "wy", "wz")),
    PLANAR: Numbers(UnitPlane(), ("x", "y", "cos", "sin"), ("vx", "vy", "wz")),
    CONTINUOUS: Numbers(UnitCircle(), ("cos", "sin")),
    TRANSLATION: Numbers(Euclidean(3), ("x", "y", "z"), ("vx", "vy", "vz")),
}
"""Kinds with several numbers."""

UNIT_NUMBERS = {kind: own.space.unit for kind, own in NUMBERS.items() if own.space.unit is not None}
"""Numbers of a kind whose squares add up to one: quaternions, (cos, sin)."""

UNIT = 1e-6
"""How far lengths of axes may be from 1."""

_CHAINS = ("JointModelUniversal", "JointModelSphericalZYX", "JointModelComposite")

_ADVICE = {"JointModelMimic": "Make it a joint of its own, or fix it and add what it carries to the link before"}


def kind_of(model: pin.Model, j: int) -> int:
    """The kind of joint j; ModelError says how to remodel one that is not supported."""
    name = model.joints[j].shortname()
    if name not in _KINDS:
        advice = _ADVICE.get(name, "Remodel it as a chain of these")
        raise ModelError(
            f"{model.name}: joint {model.names[j]!r} is a {name}; supported are revolute, continuous, prismatic,"
            " helical, planar, translation and spherical joints and free-flyers (any axis, anywhere in the tree)."
            f" {advice}"
        )
    return _KINDS[name]


def subspace(model: pin.Model, j: int) -> Array:
    """The motion subspace (nj, 6) of joint j in its own frame, one row per degree of freedom."""
    joint = model.joints[j]
    data = joint.createData()
    joint.calc(data, pin.neutral(model))
    return np.asarray(data.S, dtype=np.float64).reshape(6, joint.nv).T.copy()


def check_axis(model: pin.Model, j: int, S: Array) -> None:
    """Raise ModelError where joint j, with subspace S (nj, 6), has an axis that is not finite, or not of length 1."""
    part = S[0, :3] if _KINDS[model.joints[j].shortname()] == PRISMATIC else S[0, 3:]
    if len(S) == 1 and not (np.isfinite(S).all() and abs(math.hypot(*part) - 1.0) < UNIT):
        raise ModelError(f"{model.name}: joint {model.names[j]!r}: expected an axis of length 1, got {part}")


def joint_index(model: pin.Model, name: str) -> int:
    """Index of the joint that is called so, 0 if none is: the world, "universe", is none."""
    return next((j for j, own in enumerate(list(model.names)[1:], start=1) if own == name), 0)


def root_name(taken: Collection[str]) -> str:
    """The name of a joint between world and base, which nothing is called yet."""
    name = "root_joint"
    while name in taken:
        name = f"world_{name}"
    return name


def name_frames_apart(model: pin.Model) -> None:
    """Append "_joint" to the names of frames that are called as a link is, which keeps its name."""
    for frame in list(model.frames):
        if frame.type != pin.FrameType.BODY and model.existFrame(frame.name, pin.FrameType.BODY):
            name = frame.name
            while model.existFrame(name):
                name += "_joint"
            model.frames[model.getFrameId(frame.name, frame.type)].name = name


def rest(model: pin.Model, followers: Mapping[str, tuple[str, float, float]] | None = None) -> Array:
    """The neutral configuration, its revolute and prismatic joints clipped into their limits.

    followers: leader, multiplier and offset of joints that mimic others, which are where their leaders ask for.
    """
    q = np.asarray(pin.neutral(model))
    for j in range(1, model.njoints):
        if _KINDS.get(model.joints[j].shortname()) in (REVOLUTE, PRISMATIC):
            i = model.joints[j].idx_q
            lower, upper = model.lowerPositionLimit[i], model.upperPositionLimit[i]
            q[i] = np.clip(q[i], lower, upper)
    plain = {name: joint.idx_q for name, joint in zip(model.names, model.joints, strict=True) if joint.nq == 1}
    told = {name: one for name, one in (followers or {}).items() if name in plain and one[0] in plain}
    for _ in told:  # leaders may follow others
        for name, (leader, factor, offset) in told.items():
            q[plain[name]] = factor * q[plain[leader]] + offset
    return q


def random_numbers(kind: int, lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Numbers of a joint in q: angles and lengths uniform within limits (else in ±π, ±1), attitudes uniform."""
    q = np.empty(len(lower))
    if kind in (CONTINUOUS, PLANAR):
        angle = rng.uniform(-np.pi, np.pi)
        q[-2:] = np.cos(angle), np.sin(angle)
        if kind == PLANAR:
            q[:2] = rng.uniform(-1.0, 1.0, size=2)
    elif kind in (FREE_FLYER, SPHERICAL):
        quaternion = rng.normal(size=4)
        q[:3] = rng.uniform(-1.0, 1.0, size=3)
        q[-4:] = quaternion / np.linalg.norm(quaternion)
    else:
        reach = np.pi if kind == REVOLUTE else 1.0
        for j in range(len(q)):
            low = lower[j] if lower[j] > -NO_LIMIT else min(-reach, upper[j] - reach)
            high = upper[j] if upper[j] < NO_LIMIT else max(reach, low + reach)
            q[j] = rng.uniform(low, high)
    return q


def check_limits(model: pin.Model) -> None:
    """Raise ModelError for the first joint with a lower limit above the upper one."""
    for name, joint in zip(list(model.names)[1:], list(model.joints)[1:], strict=True):
        mine = slice(joint.idx_q, joint.idx_q + joint.nq)
        lower, upper = model.lowerPositionLimit[mine], model.upperPositionLimit[mine]
        if not (lower <= upper).all():
            found = f"{lower} and {upper}"
            raise ModelError(f"{model.name}: limits of joint {name!r}: expected lower <= upper, got {found}")


def expanded(model: pin.Model) -> pin.Model:
    """The model with universal, spherical ZYX and composite joints made chains: same q, v, frames and dynamics.

    The last joint of a chain keeps the name and the body, those before it are called name_1, name_2, ... and
    carry none. The model itself if it has no such joint.
    """
    return rebuilt(model, {}) if any(joint.shortname() in _CHAINS for joint in model.joints[1:]) else model


def rebuilt(model: pin.Model, still: dict[int, pin.SE3], q: Any = np.s_[:], v: Any = np.s_[:]) -> pin.Model:
    """The model with chains for its joints, those that are ``still`` fixed: their poses on the joints that carry them.

    q, v: which numbers of configurations and velocities are left.
    """
    new = pin.Model()
    new.name, new.gravity = model.name, model.gravity
    index, place = [0], [pin.SE3.Identity()]  # the joint that carries what an old one does, and where
    for j in range(1, model.njoints):
        parent, on = index[model.parents[j]], place[model.parents[j]]
        parts = [] if j in still else _parts(model.joints[j], model.jointPlacements[j])
        for k, (placement, joint) in enumerate(parts, start=1):
            name = model.names[j] if k == len(parts) else f"{model.names[j]}_{k}"
            parent, on = new.addJoint(parent, joint, on * placement, name), pin.SE3.Identity()
        index.append(parent)
        place.append(on * still.get(j, pin.SE3.Identity()))
        new.appendBodyToJoint(parent, model.inertias[j], place[j])
    for frame in list(model.frames)[1:]:
        moved, j = pin.Frame(frame), frame.parentJoint
        moved.parentJoint, moved.placement = index[j], place[j] * frame.placement
        if j in still and frame.type == pin.FrameType.JOINT:
            moved.type = pin.FrameType.FIXED_JOINT
        new.addFrame(moved, False)
    for names, taken in ((_OF_DOFS, v), (("lowerPositionLimit", "upperPositionLimit"), q)):
        for name in names:
            setattr(new, name, np.array(getattr(model, name))[taken])
    for posture in model.referenceConfigurations:
        new.referenceConfigurations[posture.key()] = np.array(posture.data())[q]
    return new


_OF_DOFS = (
    "armature", "damping", "rotorInertia", "rotorGearRatio", "lowerDryFrictionLimit", "upperDryFrictionLimit",
    "lowerEffortLimit", "upperEffortLimit", "lowerVelocityLimit", "upperVelocityLimit",
)  # fmt: skip
"""Numbers that a model keeps for each degree of freedom."""


def _parts(joint: pin.JointModel, placement: pin.SE3) -> list[tuple[pin.SE3, pin.JointModel]]:
    """The chain a joint stands for: each one's placement on the one before, and itself."""
    kind = joint.shortname()
    if kind == "JointModelComposite":
        inner = joint.extract()
        found: list[tuple[pin.SE3, pin.JointModel]] = []
        for part, place in zip(inner.joints, inner.jointPlacements, strict=True):
            found += _parts(part, placement * place if not found else place)
        return found
    if kind in _CHAINS:
        data = joint.createData()
        joint.calc(data, np.zeros(joint.idx_q + joint.nq))
        axes = np.asarray(data.S).reshape(6, joint.nv).T[:, 3:]
        places = [placement] + [pin.SE3.Identity()] * (joint.nv - 1)
        return [(p, pin.JointModelRevoluteUnaligned(axis.copy())) for p, axis in zip(places, axes, strict=True)]
    return [(placement, joint)]
