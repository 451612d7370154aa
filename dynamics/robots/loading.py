"""Reading robot files: names of example-robot-data, URDF, MJCF and SDF, and the shapes to draw."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ddp.errors import ModelError, as_array, nearest, numbers, said
from ddp.protocols import Array
from dynamics.robots import inspection, meshes, sdf, urdf
from dynamics.robots.found import Found, Source
from dynamics.robots.joints import root_name
from dynamics.robots.libraries import coal, pin
from dynamics.robots.mjcf import reading, shapes

logger = logging.getLogger("mayne")

READERS = (".urdf", ".xml", ".mjcf", ".sdf")
ADVICE = {
    ".npz": "; a solution that was saved is read by Solution.load(path, problem)",
    ".xacro": "; expand it with `xacro robot.urdf.xacro > robot.urdf`",
}
"""Advice for other kinds of files that users hand over, by suffix."""


def read(source: str | os.PathLike[str], root: str | None) -> Found:
    """The robot of a name of example-robot-data, of a file or of its text."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return read_text(source, root)
    path = Path(source)
    if path.suffix.lower() in (*READERS, *ADVICE) or path.name != str(source) or _exists(path):
        return read_file(path, root)
    return read_named(str(source), root)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or not a path
        return False


def read_model(source: pin.Model | pin.RobotWrapper) -> Found:
    """Copies of a model, of the posture and the shapes of a RobotWrapper."""
    if isinstance(source, pin.Model):
        return Found(source.copy())
    q0 = as_array("q0 of the RobotWrapper", source.q0, (source.model.nq,), ModelError).copy()
    if not pin.isNormalized(source.model, q0, 1e-6):
        raise ModelError(f"q0 of the RobotWrapper: expected quaternions, (cos, sin) of length one, got {numbers(q0)}")
    given = None if np.array_equal(q0, pin.neutral(source.model)) else q0
    shapes = source.visual_model
    return Found(source.model.copy(), given, None if shapes is None else Source("", (), shapes=shapes.copy()))


def _described(name: str) -> Path | None:
    """File of a robot of the package robot_descriptions, which fetches it at first; None where there is none."""
    if not name.isidentifier() or importlib.util.find_spec("robot_descriptions") is None:
        return None
    if importlib.util.find_spec(f"robot_descriptions.{name}") is None:
        return None
    try:
        found = importlib.import_module(f"robot_descriptions.{name}")
    except Exception as reason:
        raise ModelError(f"robot: robot_descriptions cannot load {name}: {type(reason).__name__}: {reason}") from None
    path = getattr(found, "URDF_PATH", None) or getattr(found, "MJCF_PATH", None)
    if path is None:
        raise ModelError(f"robot: robot_descriptions has neither a URDF nor an MJCF file of {name}")
    return Path(path)


def read_named(name: str, root: str | None) -> Found:
    """Model, usual posture if there is one, and source of a robot of example-robot-data, without loading its meshes."""
    from example_robot_data import robots_loader
    from example_robot_data.utils import getModelPath, readParamsFromSrdf

    if name not in robots_loader.ROBOTS:
        described = _described(name)
        if described is not None:
            return read_file(described, root)
        raise ModelError(
            f"robot: no file and no robot of example-robot-data (`mayne list robots`) is called {said(name)};"
            f" {nearest(name, robots_loader.ROBOTS)}"
        )
    entry = robots_loader.ROBOTS[name]
    of_urdf = entry.urdf_subpath, entry.urdf_filename
    inside = Path(entry.path, *((entry.sdf_subpath, entry.sdf_filename) if entry.sdf_filename else of_urdf))
    folder = Path(getModelPath(str(inside)))
    floating = entry.free_flyer if root is None else root == "free-flyer"
    usual = entry.srdf_filename if floating == entry.free_flyer else ""
    srdf = str(folder / entry.path / entry.srdf_subpath / usual) if usual else ""
    if entry.sdf_filename:
        return _named_sdf(name, folder / inside, floating, srdf, entry.ref_posture)
    if "__init__" in vars(entry):  # a robot cut out of another, which only its loader knows how to do
        if floating != entry.free_flyer:
            raise ModelError(f"root: {name!r} comes with its own root joint; leave root out")
        cut, posture, path = _cut_out(entry)
        model = cut.copy()
        model.name = name
        _, _, source, *_ = read_file(path, "fixed", (str(folder / "../.."),))
        return Found(model, posture, source and source._replace(is_named=True))
    model, _, source, *_ = read_file(folder / inside, "free-flyer" if floating else "fixed", (str(folder / "../.."),))
    model.name = name
    q0 = None
    if srdf:
        q0 = readParamsFromSrdf(model, srdf, False, entry.has_rotor_parameters, entry.ref_posture)
        q0 = _by_whole_turns(model, q0)
    return Found(model, q0, source and source._replace(is_named=True))


@cache
def _cut_out(entry: Any) -> tuple[pin.Model, Array, Path]:
    """Model, to be copied, usual posture and file of a robot whose loader reads all meshes first, for half a second."""
    robot = entry().robot
    return robot.model, robot.q0, Path(robot.urdf)


def _by_whole_turns(model: pin.Model, q: Array) -> Array:
    """Turn hinges that are outside their limits by the whole turns that bring them inside: the posture stays."""
    q = np.array(q)
    for joint in list(model.joints)[1:]:
        i = joint.idx_q
        if joint.nq == 1 and joint.shortname().startswith("JointModelR"):
            low, high, turn = model.lowerPositionLimit[i], model.upperPositionLimit[i], 2.0 * np.pi
            inside = low + (q[i] - low) % turn if np.isfinite(low) else q[i]
            if not low <= q[i] <= high and inside <= high:
                q[i] = inside
    return q


LOCKED = {"cassie": ("knee-spring-joint", "shin-spring-joint")}
"""Joints of SDF models left out: triangles of bodies about leaf springs, whose bending another joint models."""


def _named_sdf(name: str, path: Path, floating: bool, srdf: str, posture: str) -> Found:
    """The robot of an SDF file of example-robot-data, in a posture of an SRDF file, if there is one."""
    where = f"robot file {str(path)!r}"
    document = inspection.parse(inspection.read_bytes(path, where), where)
    fixed = [f"{side}-{joint}" for joint in LOCKED.get(name, ()) for side in ("left", "right")]
    found = sdf.read(document, where, _root(document, floating), fixed)
    model = found.model
    model.name = name
    q0 = pin.neutral(model)
    if srdf:
        pin.loadReferenceConfigurations(model, srdf, False)
        q0 = pin.normalize(model, model.referenceConfigurations[posture])
    return found._replace(q0=q0).of(Source(str(path), (), is_named=True))


def _root(document: ElementTree.Element, floating: bool) -> list[object]:
    """The joint between world and base, and its name; nothing for one that is fixed."""
    names = {element.get("name", "") for element in document.iter()}
    return [pin.JointModelFreeFlyer(), root_name(names)] if floating else []


def read_file(path: Path, root: str | None, packages: tuple[str, ...] = ()) -> Found:
    """The robot of a URDF, MJCF or SDF file; ModelError says what is wrong with the file."""
    where = f"robot file {str(path)!r}"
    suffix = path.suffix.lower()
    text = inspection.read_bytes(path, where)
    if suffix not in READERS:
        advice = ADVICE.get(suffix, "")
        raise ModelError(f"{where}: expected .urdf, .xml (MJCF) or .sdf, got {suffix or 'no suffix'}{advice}")
    document = inspection.parse(text, where)
    expected = {".urdf": "robot", ".xml": "mujoco", ".mjcf": "mujoco", ".sdf": "sdf"}[suffix]
    if document.tag != expected:
        raise ModelError(f"{where}: expected a <{expected}> element at the top, got <{document.tag}>")
    path = inspection.absolute(path, where)  # meshes are read when they are drawn, in whatever working folder
    source = Source(str(path), packages or tuple(map(str, path.parents)))
    return _read(document, inspection.decoded(text, where), where, root, source)


def read_text(text: str, root: str | None) -> Found:
    """The robot of the text of a URDF or MJCF file; what it names by paths is looked for in the working folder."""
    document = inspection.parse(text, "robot text")
    return _read(document, text, "robot text", root, Source("", (".",)))


def _read(document: ElementTree.Element, text: str, where: str, root: str | None, source: Source) -> Found:
    """The robot of an inspected document by the element at its top."""
    if document.tag == "mujoco":
        source = source._replace(mjcf=text.encode())
        return reading.read(_mjcf_path(source), source.mjcf, root).of(source)
    joint = _root(document, root == "free-flyer")
    if document.tag == "sdf":
        return sdf.read(document, where, joint).of(source)
    if document.tag != "robot":
        raise ModelError(f"{where}: expected a <robot>, <mujoco> or <sdf> element at the top, got <{document.tag}>")
    urdf.check(document, where)
    urdf.without_spaces(document)
    urdf.name_apart_from_the_world(document)
    source = source._replace(urdf=ElementTree.tostring(document, encoding="unicode"))
    try:
        return Found(pin.buildModelFromXML(source.urdf, *joint), followers=urdf.mimics(document)).of(source)
    except (ValueError, RuntimeError, IndexError) as reason:
        raise ModelError(f"{where}: Pinocchio cannot read it ({reason})") from None


def _mjcf_path(source: Source) -> Path:
    """The path of an MJCF file; of a text, that of a file in the working folder."""
    return Path(source.path or "robot.xml")


def visuals(model: pin.Model, source: Source | None, kind: str = "visual") -> tuple[pin.GeometryModel, list[str]]:
    """The shapes of a model's file that can be drawn, and the mesh files it names that are missing or broken.

    kind: "visual", or "collision": of a URDF or an MJCF file those for contacts, of other sources the same.
    """
    if source is None:
        return pin.GeometryModel(), []
    if source.shapes is not None:
        return source.shapes, []
    if source.mjcf:
        return shapes.shapes(model, _mjcf_path(source), source.mjcf, kind == "collision"), []
    document = source.document
    if document is None:
        return pin.GeometryModel(), []
    missing = []
    loader = coal.CachedMeshLoader()
    for link in document.findall("link"):
        for shape in link.findall(kind):
            mesh = shape.find("geometry/mesh")
            if not model.existFrame(link.get("name", ""), pin.FrameType.BODY):  # cut off
                link.remove(shape)
            elif mesh is not None:
                filename = mesh.get("filename", "")
                found, reason = meshes.find(filename, source.path, source.packages)
                mesh.set("filename", found)
                reason = reason or meshes.flaw(loader, model, link.get("name", ""), mesh)
                if reason:
                    logger.info("mesh %s: %s", filename, reason)
                    missing.append(filename)
                    link.remove(shape)
    text = ElementTree.tostring(document, encoding="unicode")
    wanted = pin.GeometryType.VISUAL if kind == "visual" else pin.GeometryType.COLLISION
    return pin.buildGeomFromUrdfString(model, text, wanted, mesh_loader=loader), missing
