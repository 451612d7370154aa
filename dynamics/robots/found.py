"""Robots as they were found in files, by name or as models: what readers of all formats return."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.robots import inspection
from dynamics.robots.equipment import Equipment
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.omissions import Omissions

Followers = Mapping[str, tuple[str, float, float]]
"""Leader, multiplier m and offset o of each follower, joints by name: ``q_follower = m q_leader + o``."""


class Source(NamedTuple):
    """File, name or model that a robot was read from.

    path: the file, empty for a text.   packages: the folders that ``package://`` may mean.
    urdf: the text of a URDF as it was checked, empty for other formats.   mjcf: that of an MJCF, empty for others.
    shapes: those of a ``pin.RobotWrapper``.   is_named: whether it is a robot of example-robot-data.
    followers: joints that mimic others, as a file says.
    """

    path: str
    packages: tuple[str, ...]
    urdf: str = ""
    mjcf: bytes = b""
    shapes: pin.GeometryModel | None = None
    is_named: bool = False
    followers: Followers | None = None

    @property
    def document(self) -> ElementTree.Element | None:
        """The <robot> element of a URDF."""
        return inspection.parse(self.urdf, f"robot file {self.path!r}") if self.urdf else None


class Found(NamedTuple):
    """A model of our own, its usual posture if the source has one, and the source.

    equipment: actuators and springs of the file.   loops: its closed chains.
    omissions: what of it is left out, None where the model tells.   followers: as of `Source`, which takes them over.
    """

    model: pin.Model
    q0: NDArray[np.float64] | None = None
    source: Source | None = None
    equipment: Equipment | None = None
    omissions: Omissions | None = None
    loops: tuple[Loop, ...] = ()
    followers: Followers | None = None

    def of(self, source: Source) -> Found:
        """Attach the source, which takes the followers over."""
        return self._replace(source=source._replace(followers=self.followers))
