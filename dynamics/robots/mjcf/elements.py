"""Elements of an MJCF file by kind and number, as messages name them."""

import re
from xml.parsers import expat

from dynamics.robots.mjcf.compiling import Compiled, import_mujoco

_LISTS = {
    "body": "bodies", "joint": "joints", "tendon": "tendons", "actuator": "actuators", "equality": "equalities",
    "flex": "flexes",
}  # fmt: skip


class Elements:
    """Names of a compiled file's elements: 'hip' (line 12), where the line is known.

    It is not for elements of included files.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._m, self._text, spec = compiled.model, compiled.text, compiled.spec
        self._types = {
            int(actuator.id): actuator.type.name.removeprefix("mjACTUATOR_").lower() for actuator in spec.actuators
        }
        self._lines = {
            kind: {int(element.id): _line(element.info) for element in getattr(spec, many)}
            for kind, many in _LISTS.items()
        }

    def named(self, kind: str, i: int, more: str = "") -> str:
        """Element i of a kind; ``more`` is told with its line."""
        mujoco = import_mujoco()
        name = mujoco.mj_id2name(self._m, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), i)
        inside = ", ".join(part for part in (self._lines[kind].get(i, ""), more) if part)
        return (repr(name) if name else f"{kind} {i}") + (f" ({inside})" if inside else "")

    def actuator(self, i: int, law: str = "") -> str:
        """Actuator i; its type is told with its line, of a <general> one its law."""
        written = self._types.get(i, "general")
        return self.named("actuator", i, law if written == "general" else written)

    def option(self, name: str) -> str:
        """An attribute of <option> by name and value, with its line."""
        lines: list[int] = []
        parser = expat.ParserCreate("utf-8")

        def opened(tag: str, attributes: dict[str, str]) -> None:
            if tag == "option" and name in attributes:
                lines.append(parser.CurrentLineNumber)

        parser.StartElementHandler = opened
        parser.Parse(self._text, True)
        value = f"{name} {getattr(self._m.opt, name):g}"
        return f"{value}, line {lines[-1]}" if lines else value


def _line(info: str) -> str:
    """The line in what MuJoCo keeps of an element's origin; it is 0 in included files."""
    found = re.search(r"line ([1-9]\d*)", info)
    return f"line {found[1]}" if found else ""
