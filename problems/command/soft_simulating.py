"""The command ``mayne simulate``: systems of soft and hybrid robots that are ready to move, by name."""

import time

import click
import numpy as np

from ddp.errors import positive
from dynamics.quantities.quantities import frame_placement
from problems.command import playing
from problems.command.output import progress, tell, wrote
from problems.command.shell import HTML, JSON, end
from problems.soft.systems import SYSTEMS, system


@click.command()
@click.argument("name", required=False)
@click.option("--seconds", type=float, help="How long; default the system's own time.")
@click.option("--tolerance", type=float, help="Largest error of a step; default: all steps are the system's.")
@HTML
@JSON
def simulate(name: str | None, seconds: float | None, tolerance: float | None, html: str | None, as_json: bool) -> None:
    """Simulate system NAME, a soft or hybrid robot; without NAME, list them."""
    if name is None:
        _list(as_json)
        return
    if seconds is not None:
        positive("--seconds", seconds)
    if tolerance is not None:
        positive("--tolerance", tolerance)
    with progress(f"{name}, simulating"):
        moving = system(name)
        moving.simulate(moving.dt, tolerance)  # loads or compiles its kernels
        start = time.perf_counter()
        motion = moving.simulate(seconds, tolerance)
        taken = time.perf_counter() - start
    robot, last = moving.robot, motion.X[-1]
    done = bool(np.isfinite(last).all())
    ends = {frame: frame_placement(robot, last[: robot.nq], frame)[:3, 3].tolist() for frame in moving.frames if done}
    told = {"seconds": float(motion.t[-1]), "steps": motion.steps, "wall_seconds": taken}
    rows = [[what.replace("_", " "), f"{value:.4g}"] for what, value in told.items()]
    rows += [[f"{frame} at the end [m]", ", ".join(f"{x:.5f}" for x in place)] for frame, place in ends.items()]
    data = {"system": name, "degrees_of_freedom": robot.nv, "finished": done, "ends": ends} | told
    tell(as_json, data, ([f"{name}, {robot.nv} degrees of freedom", ""], rows))
    if not (done or as_json):
        stopped = motion.t[int(np.argmax(~np.isfinite(motion.X).all(axis=1)))]
        click.echo(f"no step finds an end at {stopped:.4g} s: try shorter ones, by --tolerance", err=True)
    if html:
        with progress(f"{name}, drawing"):
            playing.draw_system(moving, motion, html)
    wrote(html)
    end(done)


def _list(as_json: bool) -> None:
    """Print all systems."""
    found = [system(name) for name in SYSTEMS]
    told = [{"name": s.name, "description": s.description, "degrees_of_freedom": s.robot.nv} for s in found]
    rows = [[s.name, str(s.robot.nv), f"{s.seconds:g}", s.description] for s in found]
    tell(as_json, told, (["system", "degrees of freedom", "seconds", "what happens"], rows))
