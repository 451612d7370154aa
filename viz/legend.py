"""Lines of the legend, and what each of them switches."""

from __future__ import annotations

from typing import NamedTuple

from viz.shapes import Color


class Entry(NamedTuple):
    """Line of the legend; paths: of what its tick box hides, none: it has no box.

    shown: whether its box is ticked at first.   switches: "visible", or "wireframe" of all bodies at its paths.
    """

    label: str
    color: Color
    paths: tuple[str, ...] = ()
    shown: bool = True
    switches: str = "visible"
