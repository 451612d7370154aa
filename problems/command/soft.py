"""The command ``mayne simulate``: soft and hybrid robots that are ready to move; and their speed, beside a paper's.

Times are of derivatives, simulated motion and rest. The paper is Mathew, Boyer, Lebastard and Renda, "Analytical
derivatives of the geometric variable strain model", whose numbers are the best of theirs in MATLAB on a desktop of an
Intel Core i9. Inputs of systems are our own: theirs are in figures alone. Times are of this process alone, the least of
several, so that others on the machine matter little.
"""

import time
from typing import NamedTuple

import click
import numpy as np

from ddp.errors import ProblemError, positive
from dynamics import inverse_dynamics_derivatives, inverse_dynamics_hessian, statics
from dynamics.quantities.quantities import frame_placement
from dynamics.rigid_bodies import batch
from dynamics.rods.hybrid_robot import HybridRobot
from problems.command import playing
from problems.command.output import progress, tell, wrote
from problems.command.shell import HTML, JSON, end, refuse_idle
from problems.command.timing import least
from problems.soft.systems import SYSTEMS, system

KNOTS = 96
PAPER_MOTION = {
    "soft/cable-arm": 1.25, "soft/serial": 2.49, "soft/fin-ray": 69.0, "soft/parallel": 2.46, "soft/contact": 7.8,
    "soft/underwater": 1.17,
}  # fmt: skip
"""Seconds for 10 s of motion."""
PAPER_REST = {"soft/cable-arm": 3.3, "soft/serial": 6.3, "soft/parallel": 8.97}
"""Milliseconds for a configuration at rest."""


class Row(NamedTuple):
    """Times of one system; NaN where there is none.

    first, hessian [µs]: derivatives of inverse dynamics of both orders, the second contracted, without loads, of one
    knot alone; first_of_many, hessian_of_many: of one of many.   motion, paper_motion [s]: 10 s of motion.
    rest, paper_rest [ms]: a configuration at rest.
    """

    system: str
    degrees_of_freedom: int
    first: float
    first_of_many: float
    hessian: float
    hessian_of_many: float
    motion: float
    paper_motion: float
    rest: float
    paper_rest: float

    @property
    def cells(self) -> list[str]:
        """A line of a table."""
        return [self.system, str(self.degrees_of_freedom), *("" if np.isnan(x) else f"{x:.3g}" for x in self[2:])]


HEADER = (
    "system", "DoF", "1st order [µs]", "of many", "Hessian [µs]", "of many", "10 s [s]", "paper", "rest [ms]", "paper",
)  # fmt: skip


def row(name: str, repeat: int) -> Row:
    """Measure one system."""
    moving = system(name)
    robot = moving.robot
    if not isinstance(robot, HybridRobot):
        raise ProblemError(f"system: expected one with rods, got {name}")
    first, of_many, hessian, hessian_of_many = (1e6 * seconds for seconds in _derivatives(robot, repeat))
    moving.simulate(moving.dt)
    motion = least(moving.simulate, max(1, repeat // 10), warm=True)
    paper = PAPER_MOTION[name] * moving.seconds / 10.0
    rest = float("nan")
    if name in PAPER_REST:
        load = moving.u(0.5)
        rest = 1e3 * least(lambda: statics(robot, u=load), repeat)
    known = PAPER_REST.get(name, float("nan"))
    return Row(name, robot.nv, first, of_many, hessian, hessian_of_many, motion, paper, rest, known)


def rows(repeat: int) -> list[Row]:
    """Measure all systems."""
    return [row(name, repeat) for name in SYSTEMS]


def _derivatives(robot: HybridRobot, repeat: int) -> list[float]:
    """Seconds of first order and Hessian, of one knot in memory of floats and of one of many in that of lanes."""
    rng, tree, nv = np.random.default_rng(0), robot.tree, robot.nv
    Q = np.stack([robot.random_configuration(rng) for _ in range(KNOTS)])
    V, A, mu = rng.normal(size=(3, KNOTS, nv))
    q, v, a, weight = Q[:1], V[:1], A[:1], mu[:1]
    memory, fext = np.zeros(batch.size(tree.nb, robot.nq, nv, tree.room)), np.empty((1, 0))
    out, second = np.zeros((3, 1, nv, nv)), np.zeros((4, 1, nv, nv))
    return [
        least(lambda: batch.inverse_dynamics_derivatives(tree, memory, q, v, a, fext, out), repeat),
        least(lambda: inverse_dynamics_derivatives(robot, Q, V, A), repeat) / KNOTS,
        least(lambda: batch.inverse_dynamics_hessian(tree, memory, q, v, a, weight, fext, second), repeat),
        least(lambda: inverse_dynamics_hessian(robot, Q, V, A, mu), repeat) / KNOTS,
    ]


@click.command()
@click.argument("name", required=False)
@click.option("--seconds", type=float, help="How long; default the system's own time.")
@click.option("--tolerance", type=float, help="Largest error of a step; default: all steps are the system's.")
@HTML
@JSON
def simulate(name: str | None, seconds: float | None, tolerance: float | None, html: str | None, as_json: bool) -> None:
    """Simulate system NAME, a soft or hybrid robot; without NAME, list them."""
    if name is None:
        refuse_idle("expected with the NAME of a system", "--seconds", "--tolerance", "--html")
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
    found = [system(name) for name in SYSTEMS]
    told = [{"name": s.name, "description": s.description, "degrees_of_freedom": s.robot.nv} for s in found]
    rows = [[s.name, str(s.robot.nv), f"{s.seconds:g}", s.description] for s in found]
    tell(as_json, told, (["system", "degrees of freedom", "seconds", "what happens"], rows))
