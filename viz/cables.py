"""Tendons of soft robots in a scene, coloured by their tensions."""

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array
from viz.chains import CABLE, Chain, tension_color
from viz.details import Entry
from viz.messages import Message, clip, set_object, track
from viz.motions import Motion
from viz.robots import Drawing, path_of
from viz.shapes import Array


def as_tensions(motion: Motion, tensions: ArrayLike) -> Array:
    """Tensions (N, tendons) [N] of a motion's cables, checked."""
    cables = motion.robot.cables if isinstance(motion.robot, Chain) else []
    if not cables:
        raise ProblemError(f"tensions: expected a robot with tendons, got {motion.robot.name}, which has none")
    return as_array("tensions", tensions, (len(motion.Q) - 1, len(cables)))


def draw_cables(d: Drawing, end: float) -> tuple[list[Message], list[Message], list[Entry]]:
    """Messages, clips and legend of cables, which are coloured by their tensions where these are known."""
    messages: list[Message] = []
    clips: list[Message] = []
    assert isinstance(d.motion.robot, Chain)
    pulls, cables = d.motion.tensions, d.motion.robot.cables
    times = [*d.motion.times.tolist(), end]
    most = 0.0 if pulls is None or pulls.size == 0 else float(pulls.max())
    for c, (_, pieces) in enumerate(cables):
        colors = None
        if pulls is not None and most > 0.0:
            held = np.concatenate([pulls[:, c], pulls[-1:, c], pulls[-1:, c]])
            colors = np.array([tension_color(pull / most) for pull in held])
        for joint, mesh in pieces.items():
            path = f"{path_of(d, d.root, joint)}/cable {c}"
            messages.append(set_object(path, mesh))
            if colors is not None:
                clips.append(clip(f"{path}/<object>", [track(".material.color", "color", times, colors)]))
    legend = [Entry("cables", CABLE)]
    if most > 0.0:
        legend = [
            Entry("cable without tension", (*tension_color(0.0), 1.0)),
            Entry(f"cable at {0.5 * most:.3g} N", (*tension_color(0.5), 1.0)),
            Entry(f"cable at {most:.3g} N", (*tension_color(1.0), 1.0)),
        ]
    return messages, clips, legend
