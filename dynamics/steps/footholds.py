"""Doubts about a guess of states on legs: feet that it leaves far from where they are held, and the likely cause."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot

BEYOND_STEP = 5e-3
"""Least distance of a foot from its foothold that is told of [m]."""

STRAIGHT = 0.1
"""Share of the fastest motion of a foot by its leg's joints below which the slowest one is that of a straight leg."""


def missed_footholds(system: Any, problem: Any) -> Iterator[str]:
    """Tell of the contact that a guess of states leaves furthest from where it is held, at ends of phases."""
    states = problem.guess[0] if isinstance(problem.guess, tuple) else None
    if states is None or getattr(system, "phases", None) is None:
        return
    robot, worst, start = system.robot, (BEYOND_STEP, "", 0), 0
    for phase in system.phases:
        first = start + bool(phase.impact)  # an impact has a knot of its own
        end = first + phase.knots
        held = [contact for contact in phase.contacts if contact.kind == "point" and contact.target is not None]
        known = range(first, min(end, len(states)))  # horizons may be shorter than all phases
        for knot in (*known[:1], *known[-1:]) if held and phase.held else ():
            q = np.asarray(states)[knot, : robot.nq]
            for contact in held:
                worst = max(worst, (contact.distance(robot, q), contact.frame, knot))
        start = end
    away, frame, knot = worst
    if frame:
        cure = "a lower speed, less turning [rad/s] or steps of shorter duration bring it nearer"
        if is_straight(robot, frame, np.asarray(problem.x0)[: robot.nq]):
            cure = f"it is nearly straight at x0: begin with bent legs, by q0=... of gaits; or {cure}"
        where = f"{frame} at knot {knot} is {1e3 * away:.0f} mm from where it is held"
        yield f"guess: {where}: its leg may not reach; {cure}"


def is_straight(robot: Robot, frame: str, q: Array) -> bool:
    """Whether joints of a frame's own leg, below what floats and branches, hardly move it in some direction."""
    model = robot.model
    joint, own = int(model.frames[robot.frame_id(frame)].parentJoint), list[int]()
    while joint and model.joints[joint].nv < 6:
        own += range(model.joints[joint].idx_v, model.joints[joint].idx_v + model.joints[joint].nv)
        joint = int(model.parents[joint])
        if len(model.children[joint]) > 1:
            break
    data, aligned = model.createData(), pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    moved = pin.computeFrameJacobian(model, data, q, robot.frame_id(frame), aligned)[:3, own]
    speeds = np.linalg.svd(moved, compute_uv=False)
    return bool(len(speeds) and speeds[-1] < STRAIGHT * speeds[0])
