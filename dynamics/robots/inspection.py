"""Reading XML that is not trusted: checked before a native parser sees it, and within limits that no robot needs.

Prefixes of names are kept as they are written, whether the file declares them or not, as ROS's tools do:
``<gazebo:plugin>`` is an element of that name.
"""

import codecs
import os
import re
import stat
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from xml.parsers import expat

from ddp.errors import ModelError

LARGEST = 64 * 2**20
"""Bytes of a robot file; public ones have 0.2 MB."""
DEEPEST = 500
"""Elements one inside of another: what tinyxml2, the parser of Pinocchio and MuJoCo, accepts; public files have 8."""
MOST = 100_000
"""Elements of a robot file; public ones have 4000."""


def read_bytes(path: Path, where: str) -> bytes:
    """The contents of a regular file; ModelError if there is none, or it cannot be read, or it is too large."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ModelError(f"{where}: expected a file, got a device, a pipe or a socket")
            contents = file.read(LARGEST + 1)
    except FileNotFoundError:
        seen = "" if path.is_absolute() else f" in {absolute(path.parent, where)}"
        if path.parts and path.parts[0].endswith(":"):  # of https://...
            seen = ": addresses are not fetched, download it with its meshes and give its path"
        raise ModelError(f"{where}: no such file{seen}") from None
    except IsADirectoryError:
        raise ModelError(f"{where}: expected a file, got a folder") from None
    except ModelError:
        raise
    except (OSError, ValueError) as reason:
        raise ModelError(f"{where}: cannot be read ({reason})") from None
    if len(contents) > LARGEST:
        raise ModelError(f"{where}: expected at most {LARGEST // 2**20} MB, got more")
    return contents


def absolute(path: Path, where: str) -> Path:
    """A path from the root on; ModelError if it begins in a working folder that has been removed."""
    try:
        return path.absolute()
    except OSError:
        raise ModelError(f"{where}: expected an absolute path, the working folder has been removed") from None


def mode(path: Path) -> int | None:
    """Mode of what is at a path, None if there is nothing."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return None


def is_special(path: Path) -> bool:
    """Whether there is a device, a pipe or a socket at a path."""
    kind = mode(path)
    return kind is not None and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _without_waiting(path: str, flags: int) -> int:
    """Open a pipe that nobody writes to without waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def decoded(contents: bytes, where: str) -> str:
    """The text of an XML document by the encoding that it declares, else UTF-8; ModelError if it is not in that."""
    declared = re.match(rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*["']([\w.-]+)""", contents)
    encoding = declared[1].decode() if declared else "utf-8"
    if contents.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        return contents.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError) as reason:
        raise ModelError(f"{where}: not well-formed XML ({reason})") from None


def parse(text: bytes | str, where: str, most: int = MOST) -> ElementTree.Element:
    """The root of an XML document; ModelError for malformed XML, entities, and what is too deep or too much.

    most: elements that are not too many.
    """
    builder, depth, count = ElementTree.TreeBuilder(), 0, 0
    parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > DEEPEST:
            raise ModelError(f"{where}: expected at most {DEEPEST} elements one inside of another, got more")
        if count > most:
            raise ModelError(f"{where}: expected at most {most} elements, got more")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(name: str, *_: object) -> None:
        raise ModelError(f"{where}: expected no entities of its own, got {name!r} (line {parser.CurrentLineNumber})")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError, LookupError) as reason:
        if isinstance(reason, ModelError):
            raise
        raise ModelError(f"{where}: not well-formed XML ({reason})") from None
    return builder.close()
