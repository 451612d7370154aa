"""Solutions in notebooks: how they are drawn there, which a room above says."""

import html
from collections.abc import Callable
from typing import Any

Drawer = Callable[[Any], str]

_drawers: list[Drawer] = []


def draw_with(drawer: Drawer) -> None:
    """Draw solutions in notebooks by a function from a Solution to HTML."""
    _drawers[:] = [drawer]


def as_html(solution: Any) -> str:
    """The line that ``print`` shows of a solution, and its picture where somebody draws it."""
    line = f"<p><code>{html.escape(str(solution))}</code></p>"
    return line + "".join(drawer(solution) for drawer in _drawers)
