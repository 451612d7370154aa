"""Reading robot files: names of example-robot-data, URDF, MJCF and SDF, and the shapes to draw."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ddp.errors import ModelError, nearest, said
from dynamics.robots.mjcf.reading import Described, read
from dynamics.robots.mjcf.shapes import shapes

READERS = (".urdf", ".xml", ".mjcf", ".sdf")


class Source(NamedTuple):
    """Where a robot was read from: the file, and the folders that ``package://`` may mean."""

    path: str
    packages: tuple[str, ...]


def read_named(name: str, root: str | None) -> tuple[pin.Model, NDArray[np.float64], Source]:
    """Model, usual posture and source of a robot of example-robot-data, without loading its meshes."""
    from example_robot_data import robots_loader
    from example_robot_data.utils import getModelPath, readParamsFromSrdf

    if name not in robots_loader.ROBOTS:
        raise ModelError(
            f"robot: no file and no robot of example-robot-data is called {said(name)};"
            f" {nearest(name, robots_loader.ROBOTS)}"
        )
    entry = robots_loader.ROBOTS[name]
    if not entry.urdf_filename:
        raise ModelError(f"robot: {name!r} is an SDF model with closed loops, which is not supported")
    inside = Path(entry.path, entry.urdf_subpath, entry.urdf_filename)
    folder = Path(getModelPath(str(inside)))
    floating = entry.free_flyer if root is None else root == "free-flyer"
    if "__init__" in vars(entry):  # a robot cut out of another, which only its loader knows how to do
        if floating != entry.free_flyer:
            raise ModelError(f"root: {name!r} comes with its own root joint; leave root out")
        robot = entry().robot
        robot.model.name = name
        return robot.model, robot.q0, Source(robot.urdf, (str(folder / "../.."),))
    model, source = read_file(folder / inside, "free-flyer" if floating else "fixed", (str(folder / "../.."),))
    model.name = name
    q0 = pin.neutral(model)
    if entry.srdf_filename and floating == entry.free_flyer:
        srdf = str(folder / entry.path / entry.srdf_subpath / entry.srdf_filename)
        q0 = readParamsFromSrdf(model, srdf, False, entry.has_rotor_parameters, entry.ref_posture)
    return model, q0, source


def read_file(path: Path, root: str, packages: tuple[str, ...] = ()) -> tuple[pin.Model, Source]:
    """A Pinocchio model from a URDF or SDF file; ModelError says what is wrong with the file."""
    suffix = _checked_suffix(path)
    arguments = [str(path)] + ([pin.JointModelFreeFlyer()] if root == "free-flyer" else [])
    if suffix == ".sdf" and not pin.WITH_SDFORMAT:
        raise ModelError(f"robot file {str(path)!r}: this Pinocchio cannot read SDF; convert it to URDF")
    try:
        model = pin.buildModelFromUrdf(*arguments) if suffix == ".urdf" else pin.buildModelsFromSdf(*arguments)[0]
    except (ValueError, RuntimeError, IndexError) as reason:
        raise ModelError(f"robot file {str(path)!r}: Pinocchio cannot read it ({reason})") from None
    return model, Source(str(path), packages or (str(path.parent), str(path.parent.parent)))


def is_mjcf(path: str | Path) -> bool:
    """Whether a file's suffix is one of MJCF's."""
    return Path(path).suffix.lower() in (".xml", ".mjcf")


def read_mjcf(path: Path, root: str | None) -> tuple[Described, Source]:
    """An MJCF file as MuJoCo understands it; ModelError says what is wrong with the file."""
    _checked_suffix(path)
    return read(path, root), Source(str(path), ())


def _checked_suffix(path: Path) -> str:
    """The suffix of a robot file; ModelError if there is no such file, or no robot's XML in it."""
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ModelError(f"robot file {str(path)!r}: expected .urdf, .xml (MJCF) or .sdf, got {suffix or 'no suffix'}")
    if not path.is_file():
        raise ModelError(f"robot file {str(path)!r}: no such file")
    try:
        tag = ElementTree.parse(path).getroot().tag
    except (ElementTree.ParseError, UnicodeDecodeError) as reason:
        raise ModelError(f"robot file {str(path)!r}: not well-formed XML ({reason})") from None
    expected = {".urdf": "robot", ".xml": "mujoco", ".mjcf": "mujoco", ".sdf": "sdf"}[suffix]
    if tag != expected:
        raise ModelError(f"robot file {str(path)!r}: expected a <{expected}> element at the top, got <{tag}>")
    return suffix


def visuals(model: pin.Model, source: Source | None) -> tuple[pin.GeometryModel, list[str]]:
    """The shapes of a model's file that can be drawn, and the mesh files it names that do not exist."""
    if source is None:
        return pin.GeometryModel(), []
    if is_mjcf(source.path):
        return shapes(model, Path(source.path)), []
    tree = ElementTree.parse(source.path)
    missing = []
    for link in tree.getroot().iter("link"):
        for shape in link.findall("visual"):
            mesh = shape.find("geometry/mesh")
            if mesh is not None and not _mesh_exists(mesh.get("filename", ""), source):
                missing.append(mesh.get("filename", ""))
                link.remove(shape)
    text = ElementTree.tostring(tree.getroot(), encoding="unicode")
    geometry = pin.buildGeomFromUrdfString(model, text, pin.GeometryType.VISUAL, package_dirs=list(source.packages))
    return geometry, missing


def _mesh_exists(filename: str, source: Source) -> bool:
    for scheme in ("package://", "model://"):
        if filename.startswith(scheme):
            return any(Path(folder, filename[len(scheme) :]).is_file() for folder in source.packages)
    return Path(filename.removeprefix("file://")).is_file() or Path(source.path).parent.joinpath(filename).is_file()
