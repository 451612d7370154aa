"""Elements of an MJCF file by kind and number, as messages name them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

_LISTS = {
    "body": "bodies", "joint": "joints", "tendon": "tendons", "actuator": "actuators", "equality": "equalities",
    "flex": "flexes",
}  # fmt: skip


class Elements:
    """Names of a compiled file's elements: 'hip' (line 12), where the line is known.

    It is not for elements of included files.
    """

    def __init__(self, spec: Any, m: Any, path: Path) -> None:
        self._m = m
        self._path = path
        self._lines = {
            kind: {int(element.id): _line(element.info) for element in getattr(spec, many)}
            for kind, many in _LISTS.items()
        }

    def named(self, kind: str, i: int, more: str = "") -> str:
        """Element i of a kind; ``more`` is told with its line."""
        name = getattr(self._m, kind)(i).name
        inside = ", ".join(part for part in (self._lines[kind].get(i, ""), more) if part)
        return (repr(name) if name else f"{kind} {i}") + (f" ({inside})" if inside else "")

    def option(self, name: str) -> str:
        """An attribute of <option> by name and value, with its line."""
        lines: list[int] = []
        parser = expat.ParserCreate()

        def opened(tag: str, attributes: dict[str, str]) -> None:
            if tag == "option" and name in attributes:
                lines.append(parser.CurrentLineNumber)

        parser.StartElementHandler = opened
        parser.Parse(self._path.read_bytes(), True)
        value = f"{name} {getattr(self._m.opt, name):g}"
        return f"{value}, line {lines[-1]}" if lines else value


def _line(info: str) -> str:
    """The line in what MuJoCo keeps of an element's origin; it is 0 in included files."""
    found = re.search(r"line ([1-9]\d*)", info)
    return f"line {found[1]}" if found else ""
