"""Files that an MJCF names and copies that it asks for: MuJoCo follows and makes them without end, and opens pipes."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from ddp.errors import ModelError
from dynamics.robots import inspection

MOST = 20_000
"""Elements when all copies are made, which takes MuJoCo time by their square; public robots have 4000."""
CELLS = 2**26
"""Numbers in the grid of one element: heights of a field, pixels of a texture."""
FILES, DEEPEST = 300, 20
"""Files named by a file and by those that it names; how many of them one by another."""

_FOLDERS = ("assetdir", "meshdir", "texturedir")
_GRIDS = {"hfield": ("nrow", "ncol"), "texture": ("width", "height")}
_POINT = 5
"""Elements that a point of a <composite> or <flexcomp> becomes."""


class _Part(NamedTuple):
    """The elements of one file.

    files: its path and those of the files by which it was reached.   model: the path of the file whose assets it knows.
    """

    root: Element
    files: tuple[Path, ...]
    model: Path


class _Named(NamedTuple):
    """Files by the <include> in a model that names them, by the number of its object, and by the name of a <model>."""

    included: dict[tuple[Path, int], _Part]
    models: dict[tuple[Path, str], _Part]

    def note(self, element: Element, part: _Part, found: _Part) -> None:
        """Keep what an <include> or a <model> of some part names."""
        if element.tag == "include":
            self.included[part.model, id(element)] = found
        else:
            self.models[part.model, element.get("name", found.root.get("model", ""))] = found

    def at(self, element: Element, part: _Part) -> _Part | None:
        """Part that an <include> or an <attach> of some part stands for."""
        if element.tag == "include":
            return self.included.get((part.model, id(element)))
        return self.models.get((part.model, element.get("model", ""))) if element.tag == "attach" else None


def check(path: Path, text: bytes, where: str) -> None:
    """Raise ModelError if what a file names is no regular file or leads back to it, or if it becomes too much."""
    main = _Part(inspection.parse(text.decode(), where), (), path)
    parts, named, count = [main], _Named({}, {}), 0
    for part in parts:
        for element in part.root.iter():
            count += 1
            if element.tag in ("include", "model") and element.get("file"):
                found = _read(element, part, where)
                if found is not None:
                    parts.append(found)
                    named.note(element, part, found)
            if len(parts) > FILES or count > inspection.MOST:
                most = f"{FILES} files and {inspection.MOST} elements"
                raise ModelError(f"{where}: expected at most {most} in all files that are named, got more")
    folders = _folders(parts, path)
    if len(folders) > FILES:
        raise ModelError(f"{where}: expected at most {FILES} folders in which files may be, got more")
    for part in parts:
        for element in part.root.iter():
            _check_files(element, folders, where)
            _check_grid(element, where)
    _check_size(main, named, where)


def _read(element: Element, part: _Part, where: str) -> _Part | None:
    """Read the file of an <include> or <model>; None if there is none, which MuJoCo reports in its words."""
    name = element.get("file", "")
    here, model = (part.files[-1] if part.files else part.model).parent, part.model.parent
    folders = (model, here) if element.tag == "include" else (model / here, here, model)  # in the order of MuJoCo
    path = next((path for path in (folder / name for folder in folders) if inspection.mode(path) is not None), None)
    if path is None:
        return None
    what = f"{where}: <{element.tag} file={name!r}>"
    if os.path.realpath(path) in map(os.path.realpath, part.files):
        raise ModelError(f"{what}: the file contains itself")
    if len(part.files) >= DEEPEST:
        raise ModelError(f"{what}: expected at most {DEEPEST} files that name one another, got more")
    text = inspection.read_bytes(path, what)
    root = inspection.parse(text, what)
    if inspection.decoded(text, what).encode() != text.removeprefix(b"\xef\xbb\xbf"):
        raise ModelError(f"{what}: expected UTF-8, got another encoding")
    return _Part(root, (*part.files, path), part.model if element.tag == "include" else path)


def _folders(parts: list[_Part], main: Path) -> set[Path]:
    """Folders in which MuJoCo may look for a file: more than it does, as what is not regular is none anywhere."""
    beside = {file.parent for part in parts for file in (*part.files[-1:], part.model, main)}
    compilers = [element for part in parts for element in part.root.iter("compiler")]
    inside = {compiler.get(name, "") for compiler in compilers for name in _FOLDERS}
    return beside | {folder / name for folder in beside for name in inside}


def _check_files(element: Element, folders: set[Path], where: str) -> None:
    for attribute, name in element.items():
        if not attribute.startswith("file") or not name:
            continue
        for path in {folder / short for folder in folders for short in (name, re.split(r"[/\\]", name)[-1])}:
            if inspection.is_special(path):
                raise ModelError(
                    f"{where}: <{element.tag} {attribute}={name!r}>: expected a file, got a device, a pipe or a socket"
                )


def _check_grid(element: Element, where: str) -> None:
    cells = 1
    for attribute in _GRIDS.get(element.tag, ()):
        cells *= max(next(_counts(element, attribute), 1), 1)
    if cells > CELLS:
        raise ModelError(f"{where}: <{element.tag}>: expected a grid of at most {CELLS} numbers, got {cells}")


def _check_size(main: _Part, named: _Named, where: str) -> None:
    """Refuse too many elements, each counted as often as it is copied."""
    total, ahead = 0, [(main.root, main, 1)]
    while ahead:
        element, part, times = ahead.pop()
        total += times
        if element.tag in ("composite", "flexcomp"):
            points = _POINT
            for count in _counts(element, "count"):
                points *= max(count, 1)
            total += times * points
        if total > MOST:
            raise ModelError(f"{where}: expected at most {MOST} elements when all copies are made, got more")
        if element.tag == "replicate":
            times *= max(next(_counts(element, "count"), 1), 1)
        found = named.at(element, part)
        if found is not None:
            ahead.append((found.root, found, times))
        ahead += [(child, part, times) for child in element]


def _counts(element: Element, attribute: str) -> Iterator[int]:
    """The whole numbers of an attribute; MuJoCo refuses what is none."""
    for word in element.get(attribute, "").split():
        try:
            yield int(float(word))
        except (ValueError, OverflowError):
            return
