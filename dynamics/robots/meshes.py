"""Mesh files: where they are, and whether a native parser survives them.

Of COLLADA, nodes may name one another, and the parser follows without end. Wavefront files name materials and glTF
names buffers, which it opens, pipes too.
"""

from __future__ import annotations

import json
import os
import re
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from ddp.errors import ModelError
from dynamics.robots.inspection import DEEPEST, is_special, mode, parse
from dynamics.robots.libraries import coal, pin

FORMATS = (".stl", ".dae", ".obj", ".gltf", ".glb")
"""Suffixes of meshes that are drawn: formats whose native parsers survive files that are damaged."""
LARGEST = 512 * 2**20
"""Bytes of a mesh file; public ones have 29 MB."""
MOST = 100_000
"""Nodes of a COLLADA file, each counted as often as it is drawn; public meshes have some hundreds."""
INDICES = ("p", "vcount", "v", "h")
"""Elements of COLLADA whose text is whole numbers, on which the native parser waits for ever where it is not."""


def find(filename: str, robot_file: str, packages: tuple[str, ...]) -> tuple[str, str]:
    """The path of a mesh that a robot file names, and the reason why it cannot be drawn, empty if it can.

    ``package://`` and ``model://`` are looked for in ``packages``; other names beside the robot file, then as they are.
    """
    scheme, separated, rest = filename.partition("://")
    if separated and scheme in ("package", "model"):
        candidates = [Path(folder, rest.lstrip("/")) for folder in packages]
    else:
        plain = filename.removeprefix("file://")
        candidates = [Path(robot_file).parent / plain, Path(plain)]
    path = next((path for path in candidates if stat.S_ISREG(mode(path) or 0)), None)
    return (filename, "no such file") if path is None else (str(path.absolute()), _flaw(path))


def _flaw(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        return f"a format that is not read: {suffix or 'no suffix'}"
    if path.stat().st_size > LARGEST:
        return f"more than {LARGEST // 2**20} MB"
    try:
        with open(path, "rb") as file:
            contents = b"" if suffix == ".stl" else file.read(LARGEST)
        if suffix == ".dae":
            _check_nodes(contents, path.name)
        elif suffix != ".stl":
            _check_named(path, contents, path.name)
    except (OSError, ModelError) as reason:
        return str(reason).removeprefix(f"{path.name}: ")
    return ""


def _check_nodes(contents: bytes, where: str) -> None:
    """Raise ModelError for malformed XML, entities, nodes that contain themselves, and nodes without number."""
    inside, named = _nodes(contents, where)
    edges = [[*nodes, *(node for url in urls for node in named.get(url, []))] for nodes, urls in inside]
    size, depth = [0] * len(edges), [0] * len(edges)
    try:
        for node in TopologicalSorter(dict(enumerate(edges))).static_order():
            size[node] = 1 + sum(size[k] for k in edges[node])
            depth[node] = 1 + max((depth[k] for k in edges[node]), default=0)
            if depth[node] > DEEPEST or size[node] > MOST:
                raise ModelError(f"{where}: expected at most {MOST} nodes, {DEEPEST} one inside of another, got more")
    except CycleError:
        raise ModelError(f"{where}: a node contains itself") from None


def _nodes(contents: bytes, where: str) -> tuple[list[tuple[list[int], list[str]]], dict[str, list[int]]]:
    """The nodes inside of each node, and the names that it draws; the nodes of each name."""
    inside: list[tuple[list[int], list[str]]] = []
    named: dict[str, list[int]] = {}
    ahead = [(parse(contents, where, len(contents)), -1)]
    while ahead:
        element, node = ahead.pop()
        tag = element.tag.rpartition(":")[2]
        if tag == "node":
            if node >= 0:
                inside[node][0].append(len(inside))
            node = len(inside)
            inside.append(([], []))
            for name in {element.get("id", ""), element.get("name", "")} - {""}:
                named.setdefault(name, []).append(node)
        elif tag == "instance_node" and node >= 0:
            inside[node][1].append(element.get("url", "").removeprefix("#"))
        ahead += [(child, node) for child in element]
    return inside, named


def _check_named(path: Path, contents: bytes, where: str) -> None:
    """Raise ModelError if something that the mesh at a path names, in any way to read it, is a device or a pipe."""
    named = _materials(path, contents) if path.suffix.lower() == ".obj" else _buffers(contents, where)
    for name in named:
        if is_special(path.parent / name):
            raise ModelError(f"{where}: names {name!r}: expected a file, got a device, a pipe or a socket")


def _materials(path: Path, contents: bytes) -> Iterator[str]:
    """Names behind ``mtllib``, where a line may go on in the next; a library of the mesh's own name is tried, too."""
    for line in re.findall(rb"mtllib([^\r\n]*)", re.sub(rb"\\\r?\n", b" ", contents)):
        rest = os.fsdecode(line)
        yield from {rest[1:], rest.lstrip(), rest.strip(), rest.strip(" \t\"'"), *rest.split()}
        yield f"{path.stem}.mtl"


def _buffers(contents: bytes, where: str) -> Iterator[str]:
    """Every ``uri`` of a glTF, in text or at the beginning of a binary file."""
    if contents[:4] == b"glTF":
        contents = contents[20 : 20 + int.from_bytes(contents[12:16], "little")]
    try:
        document = json.loads(contents.rstrip(b"\0"))
    except (ValueError, RecursionError) as reason:
        raise ModelError(f"{where}: not well-formed JSON ({reason})") from None
    ahead: list[Any] = [document]
    while ahead:
        found = ahead.pop()
        if isinstance(found, dict):
            uri = found.get("uri")
            if isinstance(uri, str) and not uri.startswith("data:"):
                yield from {uri, unquote(uri), uri.removeprefix("file://")}
            ahead += found.values()
        elif isinstance(found, list):
            ahead += found


def flaw(loader: coal.CachedMeshLoader, model: pin.Model, body: str, mesh: ElementTree.Element) -> str:
    """Why a <mesh> whose file is there cannot be drawn, empty if it can; the loader keeps what it has read.

    Files are read one by one before a robot's shapes are put together, so that a broken one is known by its name; by
    Pinocchio, as Python's own way to a cached loader reads files anew.   body: a frame of the model to have it at.
    The scale of a COLLADA file is multiplied by its unit, which RViz and Gazebo heed and Pinocchio does not.
    """
    alone = ElementTree.Element("robot", name=body)
    visual = ElementTree.SubElement(ElementTree.SubElement(alone, "link", name=body), "visual")
    ElementTree.SubElement(visual, "geometry").append(mesh)
    try:
        if Path(path := mesh.get("filename", "")).suffix.lower() == ".dae":
            unit = _unit_of_checked(path)
            mesh.set("scale", " ".join(repr(unit * float(word)) for word in mesh.get("scale", "1 1 1").split()))
        text = ElementTree.tostring(alone, encoding="unicode")
        shapes = pin.buildGeomFromUrdfString(model, text, pin.GeometryType.VISUAL, mesh_loader=loader)
    except (OSError, ValueError, RuntimeError, MemoryError, ElementTree.ParseError):
        return "broken, or not of the format that its name says"
    surface = shapes.geometryObjects[0].geometry
    if not surface.num_tris:
        return "no triangles"
    return "" if np.isfinite(surface.vertices()).all() else "a vertex that is not finite"


def _unit_of_checked(path: str) -> float:
    """Metres of the unit of a COLLADA file; ValueError if it, or something in a list of indices, is no number."""
    named, units = "1", list[str]()
    for _, element in ElementTree.iterparse(path):
        tag = element.tag.rpartition("}")[2]
        if tag in INDICES and not re.fullmatch(r"[\d\s]*", element.text or "", re.ASCII):
            raise ValueError(f"{path}: expected indices in <{element.tag}>")
        if tag == "unit":
            named = element.get("meter", "1")
        elif tag == "asset":
            units.append(named)
        if not len(element):
            element.clear()
    unit = float(units[0]) if units else 1.0  # the first asset is the file's, others are of its parts
    if not 0.0 < unit < np.inf:
        raise ValueError(f"{path}: expected a unit of some metres, got {unit}")
    return unit
