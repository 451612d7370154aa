"""The triangles and colours of a COLLADA (.dae) file.

Pinocchio reads the shapes of such files but drops their colours, and a robot all in grey is hard to read.
Only what describes coloured surfaces is read: meshes, nodes and their transforms, diffuse colours.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from viz.shapes import GREY, Array, Color, Indices, Mesh

_UP = {"X_UP": np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), "Y_UP": np.eye(3), "Z_UP": np.eye(3)}


def read(path: str | Path) -> list[Mesh]:
    """The coloured meshes of a file, in its own unit; ValueError if it holds something that is not read here."""
    try:
        return _Document(ElementTree.parse(path).getroot()).meshes()
    except (ElementTree.ParseError, LookupError, AttributeError, TypeError, RecursionError) as reason:
        raise ValueError(f"{path}: cannot read this COLLADA file ({reason!r})") from None


class _Document:
    def __init__(self, root: ElementTree.Element) -> None:
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        self.root = root
        self.byid = {element.get("id"): element for element in root.iter() if element.get("id")}
        self.turn = _UP[root.findtext("asset/up_axis", "Y_UP").strip()]

    def meshes(self) -> list[Mesh]:
        scene = self._at(self.root.find("scene/instance_visual_scene").get("url"))  # type: ignore[union-attr]
        found = [mesh for node in scene.findall("node") for mesh in self._node(node, np.eye(4))]
        if not found:
            raise KeyError("no triangles")
        return [mesh.moved(self.turn, np.zeros(3)) for mesh in found]

    def _at(self, url: str | None) -> ElementTree.Element:
        return self.byid[(url or "").removeprefix("#")]

    def _node(self, node: ElementTree.Element, outer: Array) -> Iterator[Mesh]:
        place = outer @ _transform(node)
        for instance in node.findall("instance_geometry"):
            binds = instance.iter("instance_material")
            colors = {bind.get("symbol"): self._color(bind.get("target")) for bind in binds}
            for mesh in self._geometry(self._at(instance.get("url")), colors):
                yield mesh.moved(place[:3, :3], place[:3, 3])
        for child in node.findall("node"):
            yield from self._node(child, place)
        for instance in node.findall("instance_node"):
            yield from self._node(self._at(instance.get("url")), place)

    def _color(self, target: str | None) -> Color:
        effect = self._at(self._at(target).find("instance_effect").get("url"))  # type: ignore[union-attr]
        text = effect.findtext(".//diffuse/color")
        if text is None:  # a texture: not drawn
            return GREY
        numbers = [float(word) for word in text.split()]
        return (numbers[0], numbers[1], numbers[2], 1.0)

    def _geometry(self, geometry: ElementTree.Element, colors: dict[str | None, Color]) -> Iterator[Mesh]:
        for faces in geometry.find("mesh"):  # type: ignore[union-attr]
            if faces.tag in ("triangles", "polylist", "polygons"):
                inputs = faces.findall("input")
                position = next(i for i in inputs if i.get("semantic") == "VERTEX")
                corners = self._at(position.get("source"))
                points = self._at(corners.find("input[@semantic='POSITION']").get("source"))  # type: ignore[union-attr]
                vertices = _numbers(points.findtext("float_array")).reshape(-1, 3)
                stride = 1 + max(int(i.get("offset", 0)) for i in inputs)
                triangles = _triangles(faces, stride, int(position.get("offset", 0)))
                if triangles.min(initial=0) < 0 or triangles.max(initial=-1) >= len(vertices):
                    raise IndexError("a triangle of vertices that there are not")
                if len(triangles):
                    yield Mesh(vertices, triangles, colors.get(faces.get("material"), GREY))
            elif faces.tag in ("tristrips", "trifans"):
                raise KeyError(faces.tag)


def _numbers(text: str | None) -> Array:
    return np.array((text or "").split(), dtype=np.float64)


def _triangles(faces: ElementTree.Element, stride: int, offset: int) -> Indices:
    """The vertex indices of <triangles>, <polylist> or <polygons>, each polygon cut into a fan."""
    rings = [np.array((p.text or "").split(), dtype=np.int64)[offset::stride] for p in faces.findall("p")]
    if faces.tag == "polygons":
        count, flat = np.array([len(ring) for ring in rings]), np.concatenate(rings)
    else:
        flat = np.concatenate(rings) if rings else np.zeros(0, dtype=np.int64)
        listed = np.array((faces.findtext("vcount") or "").split(), dtype=np.int64)
        count = listed if faces.tag == "polylist" else np.full(len(flat) // 3, 3)
    start = np.cumsum(count) - count
    pieces = np.maximum(count - 2, 0)
    first = np.repeat(start, pieces)
    step = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return flat[np.stack([first, first + step + 1, first + step + 2], axis=1)]


def _transform(node: ElementTree.Element) -> Array:
    """The 4x4 transform of a node: the product of its elementary ones, in order."""
    total = np.eye(4)
    for element in node:
        step = np.eye(4)
        if element.tag == "matrix":
            step = _numbers(element.text).reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = _numbers(element.text)
        elif element.tag == "scale":
            step[:3, :3] = np.diag(_numbers(element.text))
        elif element.tag == "rotate":
            x, y, z, degrees = _numbers(element.text)
            cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]) / np.sqrt(x * x + y * y + z * z)
            angle = np.radians(degrees)
            step[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
        elif element.tag in ("lookat", "skew"):
            raise KeyError(element.tag)
        total = total @ step
    return total
