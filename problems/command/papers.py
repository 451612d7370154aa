"""Figures and tables of the source papers, made again on this machine, as one page."""

import html
import tempfile
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import partial
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

import numpy as np

import dynamics
import viz
from ddp.differences import real_jacobian
from ddp.options import DDP, ILQR
from ddp.protocols import Array
from ddp.solver import solve
from dynamics.robots.libraries import pin
from problems import linearization
from problems.command import dynamics_bench, soft
from problems.command.report import svg_of, table, write_page
from problems.registry import find

BODIES = (5, 10, 20, 40)
BRANCHING = (1, 2, 4)
KNOTS = 16
NO_CASADI = "Not measured: CasADi is not installed here. With it (pip install casadi) this command adds its times."
SOLVED = ("pendulum/swing-up", "arm/reach", "quadrotor/loop", "quadruped/reorientation", "quadruped/trot")
MOST = 300
"""Iterations of a solve, at most."""

COMPILED = 10
"""Bodies up to which CasADi's C is compiled: 2 s for 5, half a minute for 10, minutes for more."""


def write_papers(path: Path, seconds: float, repeat: int, note: Callable[[str], None]) -> None:
    """Measure everything and write the page.

    seconds: for each row of times.   repeat: how often soft robots are measured.   note: told what is measured next.
    """
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            "<h1>The papers' figures and tables, made again</h1>",
            "<p>All numbers of this page were measured by the command at its end, on the machine named there.</p>",
        ]
        for title, make in SECTIONS.items():
            note(title)
            parts += [f"<h2>{html.escape(title)}</h2>", make(Path(folder), seconds, repeat)]
    write_page(path, "Papers", parts, f"mayne bench papers --page {path.name} --seconds {seconds:g} --repeat {repeat}")


def _growth(folder: Path, seconds: float, repeat: int) -> str:
    """Times of derivatives of inverse dynamics by number of bodies and branching, beside Pinocchio's first order."""
    rows, curves, chains = [], dict[int, list[list[float]]](), []
    for branching in BRANCHING:
        for bodies in BODIES:
            robot = dynamics_bench.tree(bodies, branching)
            s = dynamics_bench.Samples(*(part[:KNOTS] for part in dynamics_bench.samples(robot)))
            if branching == 1:
                chains.append((robot, s))

            recursion = partial(pin.computeRNEADerivatives, robot.model, robot.model.createData())
            functions: list[Callable[[], object]] = [
                dynamics_bench.per_knot(recursion, s.q, s.v, s.a),
                partial(dynamics.inverse_dynamics_derivatives, robot, s.q, s.v, s.a),
                dynamics_bench.tensors(robot, s),
                partial(dynamics.inverse_dynamics_hessian, robot, s.q, s.v, s.a, s.weight),
            ]
            times = [1e6 * t / KNOTS for t in dynamics_bench.measure(functions, seconds)]
            rows.append([str(branching), str(bodies), *(f"{t:.3g}" for t in times)])
            curves.setdefault(branching, []).append(times)
    names = ("Pinocchio, first order", "first order", "tensors", "contracted")
    chained = dict(zip(names, map(list, zip(*curves[1], strict=True)), strict=True))
    told = _casadi(chains, chained, folder, seconds)
    trees = {f"contracted, {n} children": [times[-1] for times in curves[n]] for n in BRANCHING[1:]}
    drawn = viz.plot_growth(BODIES, chained | trees, folder / "growth.svg", up="µs a knot")
    header = ["children", "bodies", "Pinocchio, 1st [µs]", "1st order [µs]", "tensors [µs]", "contracted [µs]"]
    return f"<p>Curves without a number of children are of chains.</p>{svg_of(drawn)}{table(header, rows)}{told}"


def _casadi(
    chains: list[tuple[dynamics.Robot, dynamics_bench.Samples]], curves: dict[str, list[float]], folder: Path,
    seconds: float,
) -> str:  # fmt: skip
    """Contracted Hessians by CasADi as a table; a curve of its virtual machine is added to those of chains."""
    title = "<h3>Contracted Hessians of chains by CasADi's automatic differentiation</h3>"
    if util.find_spec("casadi") is None:
        return f"{title}<p>{html.escape(NO_CASADI)}</p>"
    casadi, ours = import_module("problems.command.casadi_chains"), curves["contracted"]
    with chdir(folder):
        found = [casadi.measured(robot, s, robot.nv <= COMPILED, seconds) for robot, s in chains]
    curves["CasADi's virtual machine, contracted"] = [one.machine for one in found]
    rows = [
        [str(n), f"{t:.3g}", f"{by:.3g}", "" if c is None else f"{c:.3g}", f"{by / t:.3g}",
         "" if c is None else f"{c / t:.3g}", f"{apart:.1e}"]
        for n, t, (by, c, apart) in zip(BODIES, ours, found, strict=True)
    ]  # fmt: skip
    header = [
        "bodies", "contracted [µs]", "CasADi's virtual machine [µs]", "CasADi, compiled [µs]", "virtual machine / ours",
        "compiled / ours", "largest difference",
    ]  # fmt: skip
    said = (
        f"CasADi {metadata.version('casadi')}: ca.hessian of weight @ torques over (q, v, a), torques by Newton and "
        f"Euler's recursion in SX, mapped over {KNOTS} knots one by one, where ours takes several knots in a register; "
        f"as C by gcc -O1 up to {COMPILED} bodies, as more take minutes to compile. The last column is the largest "
        "difference of their Hessians from ours, over the largest entry."
    )
    return f"{title}<p>{html.escape(said)}</p>{table(header, rows)}"


def _linearisation(folder: Path, seconds: float, repeat: int) -> str:
    subject = linearization.branched()
    found = linearization.sweep(subject, linearization.perturbed(subject))
    errors = {"one-sided": found.one_sided, "central": found.central}
    drawn = svg_of(viz.plot_differences(found.deltas, errors, folder / "sweep.svg"))
    one, two, rounding = found.slopes
    header = ["slope, one-sided", "central", "rounding", "least error / scale"]
    return drawn + table(header, [[f"{one:.2f}", f"{two:.2f}", f"{rounding:.2f}", f"{found.floor / found.scale:.1e}"]])


def _contacts(folder: Path, seconds: float, repeat: int) -> str:
    robot = dynamics.load("hyq")
    feet = [dynamics.Contact(f"{leg}_foot") for leg in ("lf", "rf", "lh", "rh")]
    rng = np.random.default_rng(0)
    q, v, tau = robot.q0, 0.3 * rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    moved = dynamics.contact_dynamics_derivatives(robot, q, v, tau, feet)
    struck = dynamics.impact_dynamics_derivatives(robot, q, v, feet)

    def about(function: Callable[..., Any], *loads: Any) -> Callable[[Array], Any]:
        return lambda z: function(robot, pin.integrate(robot.model, q, z[: robot.nv]), v + z[robot.nv :], *loads)

    moving, striking = about(dynamics.contact_dynamics, tau, feet), about(dynamics.impact_dynamics, feet)
    known: dict[str, tuple[Callable[[Array], Array], Any]] = {
        "acceleration under contacts": (lambda z: moving(z).a, moved.a), "forces": (lambda z: moving(z).f, moved.f),
        "velocity after an impact": (lambda z: striking(z).v, struck.v),
    }  # fmt: skip
    rows = []
    for name, (function, exact) in known.items():
        found = np.split(real_jacobian(function, np.zeros(2 * robot.nv)), 2, axis=-1)
        pairs = zip(found, (exact.dq, exact.dv), strict=True)
        rows.append([name, *(f"{np.abs(rate - own).max() / np.abs(own).max():.1e}" for rate, own in pairs)])
    return table(["HyQ on four feet", "by q, relative error", "by v"], rows)


def _solvers(folder: Path, seconds: float, repeat: int) -> str:
    rows: list[Sequence[str]] = []
    drawn = ""
    for name in SOLVED:
        problem = find(name)()
        found = {
            "iLQR": solve(problem, ILQR(max_iterations=MOST), throw=False),
            "DDP": solve(problem, DDP(max_iterations=MOST), throw=False),
        }
        told = [str(one.iterations) if one.converged else f"not in {MOST}" for one in found.values()]
        rows.append([name, *told, f"{found['DDP'].cost:.6g}"])
        if name == "quadruped/reorientation":
            drawn = svg_of(viz.plot_convergence(found, folder / "convergence.svg", title=name))
    return table(["problem", "iLQR, iterations", "DDP", "cost"], rows) + drawn


SECTIONS: dict[str, Callable[[Path, float, int], str]] = {
    "Second-order derivatives of inverse dynamics, by number of bodies and branching": _growth,
    "Derivatives of robots, beside Pinocchio's": lambda folder, seconds, repeat: table(
        ["per knot", "robot", "µs", "Pinocchio [µs]", "ratio"], [row.cells[:-1] for row in dynamics_bench.rows(seconds)]
    ),
    "Linearisation in continuous time: errors of differences for every step": _linearisation,
    "Derivatives of contacts and impacts": _contacts,
    "Soft and hybrid robots": lambda folder, seconds, repeat: table(
        soft.HEADER, [row.cells for row in soft.rows(repeat)]
    ),
    "DDP and iLQR": _solvers,
}
