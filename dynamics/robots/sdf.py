"""SDF files as robots: a tree of links, rotors of gearboxes as armature, and loops where a link has several joints.

Read is what SDF up to 1.6 has: poses of links in the model, of joints in their child, axes in the joint or the model.
The first joint of a link carries it, the others close loops: those that turn as a ball at one point, since hinges that
are not exactly parallel would lock, and named where that gives an axis way; welds where they are fixed. Parts of a file
that change the motion and are not read are named: see ``UNMODELLED``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ddp.errors import ModelError
from ddp.protocols import Array
from dynamics.robots import loop
from dynamics.robots.equipment import Equipment
from dynamics.robots.found import Found
from dynamics.robots.joints import effort_limits, joint_index
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.omissions import Omissions
from dynamics.robots.urdf import OF_DRAKE, check_names, check_single, of_others

MOVING = ("revolute", "continuous", "prismatic", "ball", "fixed")
"""Types of joints that can carry a link."""

CLOSING = {"revolute": "rx ry rz", "continuous": "rx ry rz", "ball": "rx ry rz", "fixed": ""}
"""Directions that joints leave free which close loops."""
HINGES, PARTED = ("revolute", "continuous"), 1e-3
"""Types that close loops as balls, told where their axes part by this angle [rad] near the posture of the file."""

ON, OFF = ("1", "true"), ("0", "false")
"""Texts of switches."""

UNMODELLED = (
    (".", "static", ON, "models that are static, {}, move"),
    ("model", ".", None, "nested models {} are not read"),
    ("include", ".", None, "models that are included, {}, are not read"),
    ("link", "gravity", OFF, "gravity acts on all links, as on {}"),
    ("link", "kinematic", ON, "links that are kinematic, {}, are moved by forces"),
    ("link", "velocity_decay", None, "decay of velocities of links {} is not modelled"),
    ("link", "inertial/fluid_added_mass", None, "added mass of links {} in fluids is not modelled"),
    ("joint", "axis/mimic", None, "joints that mimic others follow them in MimicDynamics alone: {}"),
)
"""Parts of a model that change its motion and are not read: of which elements, where in them, with which texts."""

UNUSED = (
    ("plugin", ".", None, "plugins of simulators, {}, do not run"),
    ("gripper", ".", None, "grippers {} do not hold what they touch"),
    ("frame", ".", None, "frames {} are not read"),
    ("joint", "physics", None, "settings of simulators are not read: <physics> of {}"),
    ("joint", "axis/limit/stiffness", None, "limits of position do not give way: <stiffness> of {} is not read"),
    ("joint", "axis/limit/dissipation", None, "limits of position do not give way: <dissipation> of {} is not read"),
    *((f"joint[@type='{type}']", "axis2", None, "second axes of joints {} have no meaning") for type in MOVING),
)
"""Parts that are not read and change motions in simulators alone, or nothing."""

KNOWN = {
    "model": ("static", "self_collide", "allow_auto_disable", "include", "model", "enable_wind", "frame", "pose",
              "link", "joint", "plugin", "gripper"),
    "link": ("gravity", "enable_wind", "self_collide", "kinematic", "must_be_base_link", "velocity_decay", "frame",
             "pose", "inertial", "collision", "visual", "sensor", "projector", "audio_sink", "audio_source", "battery",
             "light", "particle_emitter"),
    "joint": ("parent", "child", "gearbox_ratio", "gearbox_reference_body", "thread_pitch", "screw_thread_pitch",
              "axis", "axis2", "physics", "frame", "pose", "sensor"),
    "axis": ("xyz", "use_parent_model_frame", "dynamics", "limit", "initial_position", "mimic"),
    "dynamics": ("damping", "friction", "spring_stiffness", "spring_reference"),
    "limit": ("lower", "upper", "effort", "velocity", "stiffness", "dissipation"),
    "inertial": ("mass", "pose", "inertia", "density", "auto_inertia_params", "fluid_added_mass"),
    "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
}
"""Parts that SDF has inside of elements which decide how a robot moves; others are misplaced."""
DEEP = {"link": ("inertial", "inertial/inertia"), "joint": ("axis", "axis/dynamics", "axis/limit")}
"""Places in links and joints of elements whose parts stand there once."""


class _Joint:
    """A joint of the file: where it is in the model, its axis in its own frame, and numbers of the axis."""

    def __init__(
        self, element: ElementTree.Element, links: dict[str, pin.SE3], model: pin.SE3, turned: str, where: str
    ) -> None:
        """model: the pose of the model.   turned: whether axes are in the model's frame where nothing is said."""
        self.name, self.type = element.get("name", ""), element.get("type", "")
        self.parent, self.child = _text(element, "parent"), _text(element, "child")
        for link in (self.parent, self.child):
            if link not in links:
                raise ModelError(f"{where}: joint {self.name!r} joins a link {link!r} that the SDF model does not have")
        if self.child == "world":
            raise ModelError(f"{where}: joint {self.name!r}: expected a link as its child in SDF, got the world")
        self.place = links[self.child] * _pose(element, where)
        axis = _numbers(element, "axis/xyz", [0.0, 0.0, 1.0], where)
        _refuse_frames(element, "axis/xyz", where)
        if (_text(element, "axis/use_parent_model_frame") or turned).lower() in ON:
            axis = self.place.rotation.T @ model.rotation @ axis
        if not np.linalg.norm(axis) > 1e-6:
            raise ModelError(f"{where}: joint {self.name!r} has an axis of no length in SDF")
        self.axis = axis / np.linalg.norm(axis)
        self.ratio = _number(element, "gearbox_ratio", 1.0, where)
        if self.ratio == 0.0:
            raise ModelError(f"{where}: gearbox_ratio of joint {self.name!r} in SDF: expected a number but 0, got 0.0")
        dynamics, limit = "axis/dynamics/", "axis/limit/"
        self.damping = _number(element, dynamics + "damping", 0.0, where)
        self.stiffness = _number(element, dynamics + "spring_stiffness", 0.0, where)
        self.rest = _number(element, dynamics + "spring_reference", 0.0, where)
        self.start = _number(element, "axis/initial_position", 0.0, where)
        self.friction = _number(element, dynamics + "friction", 0.0, where)
        leader, usual = element.find("axis/mimic"), {"multiplier": 1.0, "offset": 0.0, "reference": 0.0}
        numbers = (_number(element, f"axis/mimic/{name}", value, where) for name, value in usual.items())
        factor, offset, reference = numbers
        self.follows = None if leader is None else (leader.get("joint", ""), factor, offset - factor * reference)
        for what, number in (("damping", self.damping), ("friction", self.friction)):
            if number < 0.0:
                raise ModelError(
                    f"{where}: <{dynamics}{what}> of {self.name!r}: expected no negative number in SDF, got {number}"
                )
        self.lower, self.upper = (_number(element, limit + end, np.nan, where, False) for end in ("lower", "upper"))
        self.effort, self.speed = (_number(element, limit + end, -1.0, where, False) for end in ("effort", "velocity"))

    @property
    def model(self) -> object:
        """Pinocchio's joint."""
        if self.type == "prismatic":
            return pin.JointModelPrismaticUnaligned(self.axis)
        return pin.JointModelSpherical() if self.type == "ball" else pin.JointModelRevoluteUnaligned(self.axis)


def read(document: ElementTree.Element, where: str, root: list[object], fixed: Collection[str] = ()) -> Found:
    """The robot of an SDF document. root: the joint between world and base, and its name; none to fix it.

    fixed: joints whose links stay where they are on those that carry them.
    """
    found = document.find("model")
    if found is None or found.find("link") is None:
        raise ModelError(f"{where}: expected an SDF with a <model> of links at its top, got none")
    for tag in ("link", "joint"):
        check_names(tag, found.findall(tag), f"{where}, SDF")
        for element in found.findall(tag):
            single = "inertial", "pose", "parent", "child", "axis", "gearbox_ratio"
            for part in (element, *(part for path in DEEP[tag] for part in element.findall(path))):
                told = f"{where}: {tag} {element.get('name')!r} in SDF"
                check_single(part, told, single if part is element else KNOWN[part.tag])
    if frame := found.get("placement_frame"):
        raise ModelError(f"{where}: placement_frame={frame!r} is not read: SDF is read up to version 1.6")
    place = _pose(found, where)
    links = {link.get("name", ""): place * _pose(link, where) for link in found.findall("link")}
    inertias = {link.get("name", ""): _inertia(link, where) for link in found.findall("link")}
    if "world" in links:
        raise ModelError(f"{where}: link 'world' in SDF: expected another name, which is not that of the world")
    links["world"] = pin.SE3.Identity()
    turned = "true" if document.get("version", "1.6") in ("1.0", "1.2", "1.3", "1.4") else "false"
    joints = [_Joint(element, links, place, turned, where) for element in found.findall("joint")]
    omissions, gears = _unread(document, found), [joint for joint in joints if joint.type == "gearbox"]
    rotors = {joint.parent: joint for joint in gears}
    if bearing := next((one for one in joints if one.type != "gearbox" and one.parent in rotors), None):
        gear, rotor = rotors[bearing.parent].name, bearing.parent
        raise ModelError(f"{where}: gearbox {gear!r} in SDF: expected a rotor that carries nothing, got {rotor!r}")
    model = pin.Model()
    model.name = found.get("name", "") or "robot"
    carriers, moving, closing = _tree(joints, links, rotors, fixed, omissions)
    base = next((name for name in links if name not in carriers and name not in rotors), "world")
    body = {"world": (0, pin.SE3.Identity()), base: (0, links[base])}
    if root:
        body[base] = (model.addJoint(0, root[0], links[base], root[1]), pin.SE3.Identity())
    _add(model, base, inertias, body)
    for joint in moving:
        if joint.parent not in body:
            continue
        parent, offset = body[joint.parent]
        place = offset * links[joint.parent].actInv(joint.place)
        if joint.type == "fixed" or joint.name in fixed:
            body[joint.child] = parent, offset * links[joint.parent].actInv(links[joint.child])
        else:
            index = model.addJoint(parent, joint.model, place, joint.name)
            body[joint.child] = index, joint.place.actInv(links[joint.child])
        _add(model, joint.child, inertias, body)
    for link in links:
        if link not in body and link not in rotors:
            omissions.drop("links {} that no joint carries from the base on are not modelled", repr(link))
    equipment, loops = _equip(model, joints, rotors, links, inertias, body, omissions), list[Loop]()
    for joint in closing:
        if joint.parent not in body or joint.child not in body:
            omissions.drop("joints {} of links that are left out are not modelled", repr(joint.name))
        elif joint.name not in fixed and body[joint.parent][0] != body[joint.child][0]:
            loops.append(_close(model, joint, links, body))
    _tell_of_axes(model, loops, {f"{joint.name}_a" for joint in closing if joint.type in HINGES}, omissions)
    loops_held = loop.independent(loop.Mechanism(model), loops, pin.neutral(model), omissions)
    followers = {joint.name: joint.follows for joint in joints if joint.follows}
    return Found(model, equipment=equipment, omissions=omissions, loops=loops_held, followers=followers)


def _tree(
    joints: list[_Joint], links: dict[str, pin.SE3], rotors: dict[str, _Joint], fixed: Collection[str],
    omissions: Omissions,
) -> tuple[set[str], list[_Joint], list[_Joint]]:  # fmt: skip
    """Links that are carried, the joints that carry them, parents first, and those that close loops."""
    carriers: set[str] = set()
    chosen, closing = [], []
    for joint in joints:
        if joint.type == "gearbox" or joint.child in rotors:
            continue
        if joint.type not in MOVING or (joint.child in carriers and joint.type not in CLOSING):
            if joint.name not in fixed:
                omissions.drop("joints {} of types that mayne has not, or not in loops, are not modelled", joint.name)
        elif joint.child in carriers:
            closing.append(joint)
        else:
            carriers.add(joint.child)
            chosen.append(joint)
    ordered: list[_Joint] = []
    placed = {name for name in links if name not in carriers}
    while len(ordered) < len(chosen):
        ready = [joint for joint in chosen if joint.parent in placed and joint.child not in placed]
        if not ready:
            raise ModelError(f"the SDF model's joints {', '.join(joint.name for joint in chosen)} form a circle")
        ordered += ready
        placed |= {joint.child for joint in ready}
    return carriers, ordered, closing


def _add(model: pin.Model, link: str, inertias: dict[str, pin.Inertia], body: dict[str, tuple[int, pin.SE3]]) -> None:
    """Enter a link's inertia and frame."""
    joint, place = body[link]
    if joint and link in inertias:
        model.appendBodyToJoint(joint, inertias[link], place)
    if link != "world":
        model.addFrame(pin.Frame(link, joint, 0, place, pin.FrameType.BODY), False)


def _equip(
    model: pin.Model, joints: list[_Joint], rotors: dict[str, _Joint], links: dict[str, pin.SE3],
    inertias: dict[str, pin.Inertia], body: dict[str, tuple[int, pin.SE3]], omissions: Omissions,
) -> Equipment:  # fmt: skip
    """Springs, damping, limits; rotors of gearboxes as armature and mass of what they sit on, one motor for each."""
    stiffness, springref, damping = np.zeros((3, model.nv))
    lower, upper = np.array(model.lowerPositionLimit), np.array(model.upperPositionLimit)
    efforts, speeds = np.array(model.upperEffortLimit), np.array(model.upperVelocityLimit)
    armature, driving = np.zeros(model.nv), list[int]()
    for joint in joints:
        if not (index := joint_index(model, joint.name)):
            resists = joint.damping or joint.stiffness or joint.friction
            if resists and joint.type in MOVING and joint.type != "fixed":
                omissions.drop("springs, damping and friction of joints {} do not act", repr(joint.name))
            continue
        own = model.joints[index]
        damping[own.idx_v : own.idx_v + own.nv] = joint.damping
        if joint.friction:
            omissions.drop("dry friction of {} is not modelled", repr(joint.name))
        if joint.start:
            omissions.drop("initial positions of joints {} are not read", repr(joint.name))
        if joint.effort == 0.0:
            omissions.doubt("limits of effort that are 0 are read as none: {}", repr(joint.name))
        if joint.stiffness < 0.0:
            omissions.doubt("springs with a negative stiffness push away from their rest: {}", repr(joint.name))
        if own.nv > 1 and joint.stiffness:
            omissions.drop("springs of ball joints {} are not modelled", repr(joint.name))
        if own.nv == 1:
            stiffness[own.idx_v], springref[own.idx_v] = joint.stiffness, joint.rest
            lower[own.idx_q] = np.nan_to_num(joint.lower, nan=lower[own.idx_q], posinf=np.inf, neginf=-np.inf)
            upper[own.idx_q] = np.nan_to_num(joint.upper, nan=upper[own.idx_q], posinf=np.inf, neginf=-np.inf)
            efforts[own.idx_v] = joint.effort if joint.effort >= 0.0 else efforts[own.idx_v]
            speeds[own.idx_v] = joint.speed if joint.speed >= 0.0 else speeds[own.idx_v]
    for rotor, gear in rotors.items():
        carried = next((joint for joint in joints if joint.child == rotor), None)
        moved = (one for one in joints if one.child == gear.child and joint_index(model, one.name))
        driven = next(moved, None)
        if carried is None or driven is None or carried.parent not in body:
            omissions.drop("gearboxes {} without a joint on either side are not modelled", repr(gear.name))
            continue
        index, place = body[carried.parent]
        if index:
            model.appendBodyToJoint(index, inertias[rotor], place * links[carried.parent].actInv(links[rotor]))
        axis = links[rotor].rotation.T @ gear.place.rotation @ gear.axis
        k = model.joints[joint_index(model, driven.name)].idx_v
        armature[k] += axis @ inertias[rotor].inertia @ axis / gear.ratio**2
        driving.append(k)
    model.armature, model.damping = armature, damping
    model.lowerPositionLimit, model.upperPositionLimit = lower, upper
    model.lowerEffortLimit, model.upperEffortLimit = -efforts, efforts
    model.lowerVelocityLimit, model.upperVelocityLimit = -speeds, speeds
    springs, rest = (stiffness, springref) if stiffness.any() else (None, None)
    if not driving:
        return Equipment(None, None, springs, rest, damped=True)
    S, limits = np.eye(model.nv)[:, driving], effort_limits(model)[driving]
    return Equipment(S, limits if np.isfinite(limits).any() else None, springs, rest, damped=True)


def _unread(document: ElementTree.Element, model: ElementTree.Element) -> Omissions:
    """Name what changes the motion and is not read."""
    found = Omissions()
    for other in document:
        if other is not model:
            found.drop("elements {} beside the first <model> are not read", f"<{other.tag}>")
    for note, parts in ((found.drop, UNMODELLED), (found.doubt, UNUSED)):
        for tag, path, texts, effect in parts:
            for element in model.findall(tag):
                part = element.find(path)
                if part is not None and (texts is None or (part.text or "").strip().lower() in texts):
                    note(effect, repr(element.get("name") or _text(element, "uri")))
    for name in of_others(model, OF_DRAKE):
        found.drop("elements of other programs are not modelled: {}", name)
    deep = (f"{tag}/{path}" for tag, paths in DEEP.items() for path in (".", *paths))
    for part in (part for path in (".", *deep) for part in model.findall(path)):
        for other in part:
            if other.tag not in KNOWN[part.tag] and not {":", "}"} & set(other.tag):
                found.doubt("SDF has no meaning for {}, which is not read", f"<{other.tag}> of <{part.tag}>")
    for link in model.findall("link"):
        if link.find("inertial") is None:
            found.drop("links {} without <inertial>, which weigh 1 kg in SDF, have no mass", repr(link.get("name")))
    return found


def _close(model: pin.Model, joint: _Joint, links: dict[str, pin.SE3], body: dict[str, tuple[int, pin.SE3]]) -> Loop:
    """The loop that a joint closes, between two frames, z along its axis, the first on a body that moves."""
    names, ends = [], (joint.child, joint.parent)
    along = pin.SE3(pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), joint.axis).matrix(), np.zeros(3))
    for side, link in zip("ab", ends if body[joint.child][0] else ends[::-1], strict=True):
        carrier, place = body[link]
        name = f"{joint.name}_{side}"
        here = place * links[link].actInv(joint.place * along)
        model.addFrame(pin.Frame(name, carrier, 0, here, pin.FrameType.OP_FRAME), False)
        names.append(name)
    return Loop(names[0], names[1], CLOSING[joint.type])


def _tell_of_axes(model: pin.Model, loops: list[Loop], hinges: set[str], omissions: Omissions) -> None:
    """Name the hinges among loops whose axes part, where they are held as balls."""
    whole = [replace(one, free="rz") if one.frame_a in hinges else one for one in loops]
    axes = [["rx", "ry"] if one.frame_a in hinges else [] for one in loops]
    found = loop.opened(loop.Mechanism(model), whole, axes, pin.neutral(model), PARTED)
    for i in sorted({i for i, _ in found}):
        name = loops[i].frame_a.removesuffix("_a")
        omissions.drop("hinges {} close loops, in which they turn as balls: their axes are not held", repr(name))


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _numbers(element: ElementTree.Element, path: str, default: list[float], where: str, finite: bool = True) -> Array:
    """Numbers of an element, as many as the default."""
    text = _text(element, path)
    try:
        found = np.array([float(word) for word in text.split()]) if text else np.array(default)
    except ValueError:
        found = np.array([np.nan])
    if found.shape != (len(default),) or (text and (np.isnan(found) | (finite & np.isinf(found))).any()):
        raise ModelError(
            f"{where}: <{path}> of {element.get('name')!r}: expected {len(default)} finite numbers in SDF, got {text!r}"
        )
    return found


def _number(element: ElementTree.Element, path: str, default: float, where: str, finite: bool = True) -> float:
    return float(_numbers(element, path, [default], where, finite)[0])


def _refuse_frames(element: ElementTree.Element, path: str, where: str) -> None:
    """Refuse poses and directions that are given in other frames or other numbers than those of SDF 1.6."""
    for attribute, value in () if (found := element.find(path)) is None else found.items():
        if value and value not in (*OFF, "euler_rpy"):
            raise ModelError(
                f"{where}: <{path}> of {element.get('name')!r}: {attribute}={value!r} is not read: SDF is read up to"
                " version 1.6"
            )


def _pose(element: ElementTree.Element, where: str, path: str = "pose") -> pin.SE3:
    """The pose that an element gives itself: x y z, and roll, pitch, yaw about fixed axes."""
    _refuse_frames(element, path, where)
    x = _numbers(element, path, [0.0] * 6, where)
    return pin.SE3(pin.rpy.rpyToMatrix(x[3:]), x[:3])


def _inertia(link: ElementTree.Element, where: str) -> pin.Inertia:
    """Inertia of a link, in its own frame; of one without, none."""
    found = link.find("inertial")
    if found is None:
        return pin.Inertia.Zero()
    if found.get("auto") in ON:
        name = link.get("name")
        raise ModelError(f"{where}: link {name!r}: expected an <inertial> with numbers in SDF, got auto='true'")
    mass = _number(link, "inertial/mass", 1.0, where)
    at = _pose(link, where, "inertial/pose")
    xx, yy, zz, xy, xz, yz = (
        _number(link, f"inertial/inertia/i{axes}", float(axes in ("xx", "yy", "zz")), where)
        for axes in ("xx", "yy", "zz", "xy", "xz", "yz")
    )
    I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    with np.errstate(over="ignore", invalid="ignore"):
        turned = at.rotation @ I @ at.rotation.T
    if not np.isfinite(turned).all():
        raise ModelError(f"{where}: link {link.get('name')!r}: expected an <inertia> of less than 1e308 in SDF")
    made = pin.Inertia(mass, at.translation, np.eye(3))
    made.inertia = 0.5 * turned + 0.5 * turned.T  # which no body may have: a warning names it, see plausible.py
    return made
