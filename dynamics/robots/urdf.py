"""Checks of a URDF's elements: names, numbers and the tree of links, each error naming the element that is wrong.

What is checked here the native parser would take for something else without a word (a mass that is no number for zero,
a link with two parents for two links), would refuse without a name, or would not survive.

Pinocchio's rnea and aba, whose numbers inverse and forward dynamics must have, know ``armature`` alone. So

- rotor inertia becomes armature: ``rotorInertia · rotorGearRatio²`` wherever the file gives no armature;
- viscous damping is left to ``RobotDynamics(..., damping=True)``, the default for formats that have it act (MJCF);
  <mimic> to ``MimicDynamics``, dry friction and what acts on planar and floating joints to nobody: see omissions.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from xml.etree.ElementTree import Element

import numpy as np

from ddp.errors import ModelError, nearest
from dynamics.robots.libraries import pin
from dynamics.robots.omissions import Omissions, listed

WORLD = "universe"
"""Name of Pinocchio's joint and frame of the world."""

LONGEST = 500
"""Links one behind another: the native parser recurses and dies of some 3000; public robots have 40."""

_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_LIMITED = ("revolute", "prismatic")
_SINGLE = ("inertial", "parent", "child", "origin", "axis", "limit", "dynamics", "mimic")
_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")

_LENGTHS = ("origin", "box", "cylinder", "capsule", "sphere", "mesh")
_LARGEST = 1e9
"""Lengths, angles and scales that can be drawn: of larger ones squares, and distances between them, overflow."""

_NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(_MOMENTS, 1),
    "axis": {"xyz": 3},
    "limit": dict.fromkeys(("lower", "upper", "effort", "velocity"), 1),
    "dynamics": {"damping": 1, "friction": 1},
    "mimic": {"multiplier": 1, "offset": 1},
    "calibration": {"rising": 1, "falling": 1},
    "safety_controller": dict.fromkeys(("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity"), 1),
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {"scale": 3},
    "color": {"rgba": 4},
}
"""Elements inside of links and joints, their attributes that are numbers, and how many numbers each holds."""

_NEEDED = {"limit": ("effort", "velocity"), "safety_controller": ("k_velocity",), "mimic": ("joint",)}
"""Elements of joints, and attributes without which the native parser refuses the whole file and names neither."""

_READ = ("origin", "mass", "inertia", "axis", "dynamics", "mimic")
"""Elements whose attributes decide how a robot moves."""
_PARTS = {
    "robot": ("link", "joint", "material", "transmission", "gazebo", "sensor", "mujoco", "ros2_control"),
    "link": ("inertial", "visual", "collision", "contact", "surface", "sensor", "self_filter", "collision_checking",
             "self_collision_checking", "material"),
    "joint": (*_SINGLE[1:], "calibration", "safety_controller"),
    "inertial": ("origin", "mass", "inertia"),
}  # fmt: skip
"""Elements that URDF has, and what simulators add for contacts, sensors and drawings, which moves nothing."""
_ATTRIBUTES = {"link": ("name", "type"), "joint": ("name", "type", "dont_collapse")}


OF_DRAKE = (
    "drake:linear_spring_damper", "drake:linear_bushing_rpy", "drake:mimic", "drake:rotor_inertia", "drake:gear_ratio",
    "drake:joint", "drake:ball_constraint", "drake:controller_gains",
)  # fmt: skip
"""Elements by which Drake changes how a robot of a URDF or SDF moves."""
_OF_OTHERS = (
    "loop_joint", "springStiffness", "turnGravityOff", "gravity", "kinematic", "static", "dampingFactor",
    "motorInertia", *OF_DRAKE,
)  # fmt: skip
"""Elements by which Gazebo, Drake, ROS's transmissions and others change how a URDF moves: its forces and inertia."""

_OF_MUJOCO = "boundmass", "boundinertia", "settotalmass", "balanceinertia", "inertiafromgeom"
"""Settings of MuJoCo's compiler in a URDF by which masses become others."""


def of_others(robot: Element, tags: Collection[str] = _OF_OTHERS) -> Iterator[str]:
    """Elements of other programs that change how a robot moves."""
    for element in robot:
        name = element.get("name") or element.get("reference")
        parts = element if element.tag == "gazebo" else element.iter()
        found = {part.tag for part in parts if part.tag in tags and _acts(part)}
        if "drake:rotor_inertia" not in found:
            found.discard("drake:gear_ratio")
        yield from (f"<{tag}>" + (f" of {name}" if name else "") for tag in sorted(found))
    for compiler in robot.iterfind("mujoco/compiler"):
        yield from (f"{attribute} of <compiler>" for attribute in _OF_MUJOCO if compiler.get(attribute))


def _acts(part: Element) -> bool:
    """Whether an element of another program has an effect: not a zero or "false", but for gravity, which is usual."""
    text = part.get("value", part.text or "").strip().lower()
    off = text == "false" or (_is_finite(text, math.inf) and float(text) == 0.0)
    return off == (part.tag == "gravity")


def unknown(robot: Element) -> Iterator[str]:
    """Elements and attributes that URDF does not have, and numbers that nobody reads in what decides how it moves."""
    for element in [child for child in robot if child.tag in _ATTRIBUTES]:
        name = element.get("name")
        for attribute in sorted(element.attrib.keys() - _ATTRIBUTES[element.tag]):
            if ":" not in attribute:
                yield f"{attribute} of <{element.tag}> {name}"
        for whole in (element, *element.findall("inertial")):
            yield from (f"<{tag}> of {name}" for tag in _strange(whole))
        for part in [part for part in (*element, *element.findall("inertial/*")) if part.tag in _READ]:
            for attribute in sorted(part.attrib.keys() - _NUMBERS[part.tag]):
                if all(_is_finite(word, math.inf) for word in part.get(attribute, "").split()):
                    yield f"{attribute} of <{part.tag}>"
    yield from (f"<{tag}> of <robot>" for tag in _strange(robot))


def _strange(element: Element) -> Iterator[str]:
    """Names of elements inside of one that URDF does not have, and no other program that is told of."""
    for part in element:
        if part.tag not in (*_PARTS[element.tag], *_OF_OTHERS) and not {":", "}"} & set(part.tag):
            yield part.tag


def mimics(robot: Element) -> dict[str, tuple[str, float, float]]:
    """Leader, multiplier and offset of each joint that mimics another."""
    found = {}
    for joint in robot.findall("joint"):
        mimic, name = joint.find("mimic"), joint.get("name", "")
        if mimic is not None:
            numbers = float(mimic.get("multiplier", 1.0)), float(mimic.get("offset", 0.0))
            found[name] = mimic.get("joint", ""), *numbers
    return found


def check(robot: Element, where: str) -> None:
    """Raise ModelError, beginning with ``where``, for the first thing that is wrong with a <robot> element."""
    links, joints = robot.findall("link"), robot.findall("joint")
    if robot.get("name") is None:
        raise ModelError(f"{where}: expected a name of the <robot>, got none")
    _refuse_xacro(robot, [*links, *joints], where)
    if not links:
        raise ModelError(f"{where}: expected at least one <link>, got none")
    for what, elements in (("link", links), ("joint", joints)):
        check_names(what, elements, where)
        for element in elements:
            _check_numbers(element, f"{where}: {what} {element.get('name')!r}")
            check_single(element, f"{where}: {what} {element.get('name')!r}", _SINGLE)
    for link in links:
        _check_inertial(link, f"{where}: link {link.get('name')!r}")
    for joint in joints:
        _check_joint(joint, f"{where}: joint {joint.get('name')!r}")
    _check_tree([link.get("name", "") for link in links], joints, where)


def without_spaces(robot: Element) -> None:
    """Take the spaces around numbers away, in place: the native parser leaves out what has some, an <inertial> even."""
    for part in [inside for element in robot if element.tag in ("link", "joint") for inside in element.iter()]:
        for attribute in _NUMBERS.get(part.tag, {}):
            if part.get(attribute) is not None:
                part.set(attribute, " ".join(part.get(attribute, "").split()))


def name_apart_from_the_world(robot: Element) -> None:
    """Rename a fixed joint "universe", in place: the native parser would put its link, massless, on the world."""
    joints = {joint.get("name", ""): joint for joint in robot.findall("joint")}
    name = WORLD
    while name in joints:
        name += "_joint"
    if WORLD in joints and joints[WORLD].get("type") == "fixed":
        joints[WORLD].set("name", name)


def _refuse_xacro(robot: Element, parts: list[Element], where: str) -> None:
    """Refuse what xacro has still to expand; definitions that nobody uses do no harm."""
    declared = [key.removeprefix("xmlns:") for key, value in robot.items() if key[:6] == "xmlns:" and "xacro" in value]
    prefixes = tuple(f"{prefix}:" for prefix in {"xacro", *declared})
    definitions = [prefix + name for prefix in prefixes for name in ("property", "arg", "macro")]
    found = [child.tag for child in robot if child.tag.startswith(prefixes)]
    used = [tag for tag in found if tag not in definitions]
    used += [element.tag for part in parts for element in part.iter() if element.tag.startswith(prefixes)]
    for part in parts:
        for element in part.iter():
            used += [value for value in element.attrib.values() if "${" in value or "$(" in value]
    if used or (found and not parts):
        raise ModelError(
            f"{where}: expected a URDF, got a xacro file that is not expanded ({(used or found)[0]});"
            " run `xacro robot.urdf.xacro > robot.urdf` and load the result"
        )


def check_names(what: str, elements: list[Element], where: str) -> None:
    """Raise ModelError for links or joints without a name, or with that of another."""
    names = [element.get("name", "") for element in elements]
    if "" in names:
        raise ModelError(f"{where}: expected a name of each <{what}>, got none at number {names.index('') + 1}")
    name, times = Counter(names).most_common(1)[0] if names else ("", 1)
    if times > 1:
        raise ModelError(f"{where}: expected each {what} once, got {name!r} {times} times")


def check_single(element: Element, where: str, tags: Collection[str]) -> None:
    """Refuse a second element of such tags, of which the first is read."""
    for tag, times in Counter(part.tag for part in element if part.tag in tags).items():
        if times > 1:
            raise ModelError(f"{where}: expected one <{tag}>, got {times}")


def _check_numbers(element: Element, where: str) -> None:
    for part in element.iter():
        for attribute, count in _NUMBERS.get(part.tag, {}).items():
            text = part.get(attribute)
            if text is None:
                continue
            words = text.split()
            largest = _LARGEST if part.tag in _LENGTHS else math.inf
            expected = "a finite number" if count == 1 else f"{count} finite numbers"
            if largest < math.inf:
                expected += f" up to {largest:g}"
            if len(words) != count or not all(_is_finite(word, largest) for word in words):
                raise ModelError(f"{where}: <{part.tag}> {attribute}: expected {expected}, got {text[:80]!r}")
        if part.tag == "origin" and part.get("quat_xyzw") is not None:
            raise ModelError(f"{where}: <origin>: expected angles in rpy, got quat_xyzw, which is not read")


def _is_finite(word: str, largest: float) -> bool:
    try:
        number = float(word)
        return word.isascii() and "_" not in word and math.isfinite(number) and abs(number) <= largest
    except ValueError:
        return False


def _check_inertial(link: Element, where: str) -> None:
    for inertial in link.findall("inertial")[:1]:
        check_single(inertial, f"{where}: <inertial>", ("origin", "mass", "inertia"))
        for tag, attributes in (("mass", ("value",)), ("inertia", _MOMENTS)):
            part = inertial.find(tag)
            absent = attributes if part is None else [name for name in attributes if part.get(name) is None]
            if absent:
                listed = ", ".join(attributes)
                raise ModelError(f"{where}: <inertial>: expected <{tag}> with {listed}, got no {absent[0]}")


def _check_joint(joint: Element, where: str) -> None:
    kind = joint.get("type")
    if kind not in _TYPES:
        raise ModelError(f"{where}: expected one of the types {', '.join(_TYPES)}, got {kind!r}")
    for end in ("parent", "child"):
        if _link_at(joint, end) == "":
            raise ModelError(f"{where}: expected a <{end}> with a link, got none")
    axis = joint.find("axis")
    if axis is not None and axis.get("xyz") is None and kind in (*_LIMITED, "continuous"):
        raise ModelError(f"{where}: <axis>: expected xyz, got none")
    turning = kind not in ("fixed", "floating")
    if axis is not None and turning and not 1e-9 < math.hypot(*map(float, axis.get("xyz", "1 0 0").split())) < 1e9:
        raise ModelError(f"{where}: <axis>: expected a direction, got {axis.get('xyz')!r}")
    if kind in _LIMITED:
        limit = joint.find("limit")
        absent = [name for name in _NEEDED["limit"] if limit is None or limit.get(name) is None]
        if absent:
            raise ModelError(f"{where}: a {kind} joint needs a <limit> with effort and velocity, got no {absent[0]}")
    for part in joint:
        for name in _NEEDED.get(part.tag, ()):
            if part.get(name) is None:
                raise ModelError(f"{where}: <{part.tag}>: expected {' and '.join(_NEEDED[part.tag])}, got no {name}")
        if part.tag == "dynamics" and part.get("damping") is None and part.get("friction") is None:
            raise ModelError(f"{where}: <dynamics>: expected damping or friction, got neither")
    for part in [*joint.findall("limit"), *joint.findall("dynamics")] if turning else []:
        for name in ("effort", "velocity", "damping", "friction"):
            if float(part.get(name, "0")) < 0.0:
                raise ModelError(f"{where}: <{part.tag}> {name}: expected no negative number, got {part.get(name)!r}")


def _link_at(joint: Element, end: str) -> str:
    found = joint.find(end)
    return "" if found is None else found.get("link", "")


def _check_tree(links: list[str], joints: list[Element], where: str) -> None:
    """Refuse what is not one tree of links that are there, or one that is too deep."""
    known, above = set(links), dict[str, tuple[str, str]]()
    below: dict[str, list[str]] = {link: [] for link in links}
    for joint in joints:
        name, parent, child = joint.get("name", ""), _link_at(joint, "parent"), _link_at(joint, "child")
        for end, link in (("parent", parent), ("child", child)):
            if link not in known:
                raise ModelError(f"{where}: joint {name!r}: its {end} {link!r} is no link; {nearest(link, links)}")
        if child in above:
            raise ModelError(
                f"{where}: link {child!r}: expected one parent, got {above[child][0]!r} by joint {above[child][1]!r}"
                f" and {parent!r} by joint {name!r}; closed loops are not supported"
            )
        above[child] = parent, name
        below[parent].append(child)
    roots = [link for link in links if link not in above]
    if len(roots) > 1:
        raise ModelError(f"{where}: expected one link without a parent, got {listed([*map(repr, roots)], 4)}")
    reached = set()
    for depth, link in _walk(roots, below):
        if depth > LONGEST:
            raise ModelError(f"{where}: expected at most {LONGEST} links one behind another, got more, to {link!r}")
        reached.add(link)
    lost = [link for link in links if link not in reached]
    if lost:
        raise ModelError(f"{where}: expected a tree of links, got a cycle of {listed([*map(repr, lost)], 4)}")


def _walk(roots: list[str], below: dict[str, list[str]]) -> Iterator[tuple[int, str]]:
    ahead = [(1, root) for root in roots]
    while ahead:
        depth, link = ahead.pop()
        yield depth, link
        ahead += [(depth + 1, child) for child in below[link]]


def reflect_rotors(model: pin.Model) -> None:
    """Rotor inertia, seen through its gear, where there is no armature [kg m² or kg]."""
    reflected = np.asarray(model.rotorInertia) * np.asarray(model.rotorGearRatio) ** 2
    model.armature = np.where(np.asarray(model.armature) == 0.0, reflected, model.armature)


def left_out(model: pin.Model, document: Element | None = None) -> Omissions:
    """Collect what the dynamics leave out of a model, and of the URDF it is from."""
    found = Omissions()
    friction = np.maximum(np.abs(model.upperDryFrictionLimit), np.abs(model.lowerDryFrictionLimit))
    for name, joint in zip(list(model.names)[1:], list(model.joints)[1:], strict=True):
        own = slice(joint.idx_v, joint.idx_v + joint.nv)
        if np.any(model.damping[own]):
            found.doubt("viscous damping of {} acts in RobotDynamics(..., damping=True) alone", name)
        if friction[own].any():
            found.drop("dry friction of {} is not modelled", name)
    if document is None:
        return found
    for element in document.findall("joint"):
        name, kind, axis = element.get("name", ""), element.get("type"), element.find("axis")
        if not model.existJointName(name):
            continue
        if element.find("mimic") is not None:
            found.drop("joints that mimic others follow them in MimicDynamics alone: {}", name)
        resisting = (
            float(one.get(what, 0.0)) for one in element.findall("dynamics") for what in ("damping", "friction")
        )
        if kind in ("planar", "floating") and any(resisting):  # of which Pinocchio takes nothing
            found.drop("damping and friction of planar and floating joints are not modelled: {}", name)
        for limit in element.findall("limit") if kind in ("revolute", "prismatic", "continuous") else ():
            effort, velocity, *ends = (float(limit.get(end, 0.0)) for end in ("effort", "velocity", "lower", "upper"))
            if limit.get("effort") and effort == 0.0:
                found.doubt("limits of effort that are 0 are read as none: {}", name)
            if (limit.get("velocity") and velocity == 0.0) or (kind in _LIMITED and not any(ends)):
                found.doubt("limits of position or velocity that are 0 are read as 0: {}", name)
            if kind == "continuous" and any(ends):
                found.doubt("limits of position of continuous joints are not read: {}", name)
        x, y, z = map(float, ("1 0 0" if axis is None else axis.get("xyz", "1 0 0")).split())
        if kind == "planar" and np.hypot(x, y) > 1e-9 * abs(z):  # which Pinocchio takes for z
            found.drop("planar joints move in the plane of x and y of their origin, whatever their axis: {}", name)
    for name in of_others(document):
        found.drop("elements of other programs are not modelled: {}", name)
    for name in unknown(document):
        found.doubt("URDF has no meaning for {}, which is not read", name)
    return found
