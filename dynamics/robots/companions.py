"""Files that a mesh names: materials of Wavefront files, buffers of glTF, which the native parser opens, pipes too."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ddp.errors import ModelError
from dynamics.robots.inspection import is_special


def check(path: Path, contents: bytes, where: str) -> None:
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
