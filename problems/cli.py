"""The ``mayne`` command: a thin shell over problems, solvers and drawings.

Exit status: 0 success, 1 a solve that did not converge (or derivatives that are wrong), 2 bad input, 130 after Ctrl-C.
Results go to standard output, as JSON with ``--json``; progress and warnings go to standard error.
"""

import logging
import time

import click
import numpy as np

import dynamics
import viz
from ddp.check import check_derivatives
from ddp.compiling import kernel, store
from ddp.compiling.first_calls import compile_uncalled
from ddp.errors import ProblemError, choice, positive, said
from ddp.solutions.explanation import misses_of
from ddp.solver import solve as solve_problem
from problems import linearization
from problems.closed_loop import close_loop, terminal_cost
from problems.command import comparing, listing, playing, replanning, resuming, shell, simulating, soft, teaching
from problems.command.benching import bench
from problems.command.output import progress, summary, taken, tell, told, wrote
from problems.command.parameters import parameters
from problems.command.sweeping import sweep
from problems.command.timing import warm, warm_batch
from problems.durations import TimedSolution, free_durations, solve_durations
from problems.registry import ALL, find
from problems.sensitivity import with_durations


@click.group(cls=shell.Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mayne")
def main() -> None:
    """Trajectory optimisation with full second-order DDP."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)


@main.command("list")
@click.argument("name", required=False)
@shell.JSON
def list_problems(name: str | None, as_json: bool) -> None:
    """List the problems, or the parameters of problem NAME; `mayne list robots`: the robots."""
    if name == "robots":
        listing.list_robots(as_json)
    elif name is None:
        listing.list_problems(as_json)
    else:
        choice("problem", name, [*ALL, "robots"], "`mayne list` has none called")
        listing.describe(find(name), as_json)


@shell.of_problem
@click.option(
    "--solver", type=click.Choice(list(shell.SOLVERS)), default="ddp", show_default=True, help="Method of the solve.",
)
@shell.solving
@shell.SAVE
@click.option("--checkpoint", type=shell.File(), help="Write FILE on the way, for `mayne resume FILE`; go on from it.")
@shell.HTML
@shell.PLOT
@click.option("--schedule", type=shell.DRAWING, help="Write who stands when (.png, .pdf, .svg).")
@click.option("--forces", type=shell.DRAWING, help="Write the forces on the feet (.png, .pdf, .svg).")
@click.option("--view", is_flag=True, help="Play the motion in the browser, until Ctrl-C.")
@click.option("--iterations", is_flag=True, help="With --html: a slider over the motions on the way.")
@click.option("--live", is_flag=True, help="Show iterations in the browser while they are made, until Ctrl-C.")
@click.option("--explain", is_flag=True, help="Say what makes up the cost, what holds the motion, how the solve went.")
@shell.NO_BROWSER
@click.option(
    "--durations", metavar="free|LEAST,MOST",
    help="Find how long phases, or motions without, last: free, or from LEAST to MOST times as long as they do.",
)
@click.option(
    "--price-of-time", type=float,
    help="Cost of a second, for --durations; without one the time of all phases stays. Motions without need one.",
)
@shell.JSON
def solve(
    name: str, options: tuple[str, ...], solver: str, tolerance: float, max_iterations: int, workers: str,
    robot: str | None, save: str | None, checkpoint: str | None, html: str | None, plot: str | None,
    schedule: str | None, forces: str | None, view: bool, iterations: bool, live: bool, explain: bool,
    no_browser: bool, durations: str | None, price_of_time: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Solve problem NAME; its own parameters (`mayne list NAME`) are options as well."""
    entry, problem, chosen = shell.named(name, robot, options)
    if html or view or live:
        playing.check_robot(entry, problem)
    if schedule or forces:
        playing.check_contacts(entry, problem)
    method = shell.SOLVERS[solver](tolerance=tolerance, max_iterations=max_iterations)
    if iterations and not html:
        raise ProblemError("--iterations: expected together with --html, whose slider they are")
    if price_of_time is not None and durations is None:
        raise ProblemError("--price-of-time: expected together with --durations, which it is for")
    if checkpoint and durations is not None:
        raise ProblemError("--checkpoint: expected without --durations, which solves more than one problem")
    kept = None if checkpoint is None else resuming.kept(checkpoint, name, chosen, solver, tolerance)
    free = None if durations is None else free_durations(problem, durations, price_of_time)
    timed: TimedSolution | None = None
    in_phases = isinstance(problem.dynamics, dynamics.PhasedDynamics)
    if free is not None and save and not (in_phases or "dt" in parameters(entry)):
        raise ProblemError(f"--save: expected without --durations, {name} has no dt that a file could keep")
    if free is not None and save and not in_phases:
        playing.check_kept(entry, problem, chosen)
    seen = playing.Seen(entry, problem, free is None, iterations, live, not no_browser)
    with progress(f"{name}, {shell.TITLES[solver]}") as callback:
        if free is None:
            seen.tell = callback
            solution = solve_problem(problem, method, None, seen, False, workers, kept)
        else:
            timed = solve_durations(problem, free, method, callback=callback, throw=False, workers=workers)
            solution, found = timed.solution, timed.durations.tolist()
            chosen |= {"phase_durations": found} if in_phases else {"dt": found[0] / problem.horizon}
            problem = with_durations(problem, found) if in_phases else solution.problem or problem
    outcome = solution if timed is None else timed
    data = {"problem": name, "solver": solver} | summary(solution) | ({} if timed is None else told(timed))
    details = [f"\n{solution.explain().details}"] if explain and not as_json else []
    tell(as_json, data, f"{name}, {shell.TITLES[solver]}: {outcome} {taken(outcome)}", *details)
    if save:
        playing.save(save, solution, name, chosen)
    if plot:
        viz.plot_convergence({shell.TITLES[solver]: outcome}, plot, title=entry.description)
    playing.plot_gait(entry, problem, solution, schedule, forces)
    wrote(save, plot, schedule, forces)
    if html:
        playing.animate(entry, problem, solution, html, iterations=seen.iterations)
    seen.end(solution)
    if view:
        playing.animate(entry, problem, solution, None, not no_browser)
    shell.end(outcome.converged)


@shell.of_problem
@click.option("--steps", type=int, default=100, show_default=True, help="Steps; each begins with a solve.")
@click.option("--push", type=float, default=0.3, show_default=True, help="Spread of pushes on velocities [rad/s, m/s].")
@click.option("--every", type=int, default=25, show_default=True, help="Steps between pushes.")
@shell.CHASE
@shell.HTML
@shell.JSON
def mpc(
    name: str, options: tuple[str, ...], steps: int, push: float, every: int, chase: bool, robot: str | None,
    html: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Control problem NAME's system over a receding horizon while it is pushed about."""
    entry, problem, _ = shell.named(name, robot, options)
    problem = replanning.chased(problem) if chase else problem
    if html:
        playing.check_robot(entry, problem)
    with progress(f"{name}, receding horizon"):
        warm(problem)
        run = close_loop(problem, steps, push, every)
    outcome = {
        "steps": steps,
        "pushes": len(run.pushed),
        "converged": int(run.converged.sum()),
        "median_milliseconds": float(np.median(run.milliseconds[1:])) if steps > 1 else float(run.milliseconds[0]),
        "largest_milliseconds": float(run.milliseconds[1:].max()) if steps > 1 else float(run.milliseconds[0]),
        "median_iterations": float(np.median(run.iterations)),
        "terminal_cost_at_first": terminal_cost(problem, run.X[0]),
        "terminal_cost_at_last": terminal_cost(problem, run.X[-1]),
    }
    dt = 1e3 * problem.dynamics.dt
    misses = list(misses_of(problem.terminal, run.X[-1]))
    rows = [[what.replace("_", " "), f"{value:.4g}"] for what, value in outcome.items()]
    rows += [["at the end", miss] for miss in misses]
    header = [f"{name}, N = {problem.horizon}, steps of {dt:g} ms", ""]
    advice = replanning.put_off(problem, run.X[-1], run.end)
    tell(as_json, {"problem": name, "step_milliseconds": dt, "misses": misses} | outcome, (header, rows), *advice)
    if html:
        t = problem.dynamics.dt * np.arange(len(run.X))
        playing.animate(entry, problem, playing.Trajectory(run.X, run.U, problem, t), html)
    shell.end(bool(run.converged.all()))


@main.command()
@click.argument("file", type=click.Path(exists=True))
@shell.PROBLEM
@shell.ROBOT
@click.option("--dt", type=float, help="Step of time [s], for the motion of a --robot without a problem.")
@shell.HTML
@shell.NO_BROWSER
def view(
    file: str, problem: str | None, robot: str | None, dt: float | None, html: str | None, no_browser: bool
) -> None:
    """Play the motion saved in FILE in the browser, until Ctrl-C, or write it with --html."""
    playing.check_motion(file)
    signed, chosen = playing.signature(file)
    name = problem or signed
    if not name:
        if robot is None or dt is None:
            raise ProblemError(f"{playing.nameless(file, robot)}; in Python, mayne.save_html draws it")
        playing.view_robot(file, robot, positive("--dt", dt), html, not no_browser)
        return
    if dt is not None:
        raise ProblemError("--dt: expected for the motion of a --robot alone, a problem has its own")
    entry, found, _ = shell.named(name, robot, (), chosen)
    playing.animate(entry, found, playing.opened(file, found), html, not no_browser)


@shell.of_problem
@click.option("--plot", type=shell.DRAWING, help="Of linearization: write errors against steps (.png, .pdf, .svg).")
@shell.JSON
def check(name: str, options: tuple[str, ...], robot: str | None, plot: str | None, as_json: bool) -> None:
    """Check every derivative of problem NAME against differences, near its guess.

    NAME linearization: check a robot's motion in continuous time, by differences of all steps from 0.1 to 1e-13.
    """
    if name == "linearization":
        if options:
            raise ProblemError(f"{options[0]}: `check {name}` has no parameters; it has --robot, --plot and --json")
        subject = linearization.branched() if robot is None else dynamics.load(robot)
        found = linearization.sweep(subject, linearization.perturbed(subject))
        outcome = {name: getattr(found, name) for name in ("ok", "slopes", "floor", "scale")}
        swept = {name: getattr(found, name).tolist() for name in ("deltas", "one_sided", "central")}
        words = f"{subject.name}: errors of differences against the exact linearisation\n{found}"
        tell(as_json, {"robot": subject.name} | outcome | swept, words)
        if plot:
            errors = {"one-sided": found.one_sided, "central": found.central}
            viz.plot_differences(found.deltas, errors, plot, "differences against the exact linearisation")
        wrote(plot)
        shell.end(found.ok)
        return
    if plot is not None:
        raise ProblemError(f"--plot: expected for linearization alone, got it for {said(name)}")
    _, problem, _ = shell.named(name, robot, options)
    with progress(f"{name}, checking derivatives"):
        report = check_derivatives(problem)
    fields = ("name", "knot", "error", "tolerance", "smooth", "ok")
    checks = [{field: getattr(item, field) for field in fields} for item in report.checks]
    tell(as_json, {"problem": name, "ok": report.ok, "checks": checks}, str(report))
    shell.end(report.ok)


@main.command("warm")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--clear", is_flag=True, help="Remove all compiled kernels from the cache first.")
@shell.JSON
def warm_up(names: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Compile ahead what problems NAME, by default all, need, and keep it in the cache."""
    entries = [find(name) for name in names or ALL]
    if clear:
        store.forget()
    rows = []
    for number, entry in enumerate(entries, 1):
        compiled: list[str] = []
        start = time.perf_counter()
        with progress(f"{entry.name}, {number} of {len(entries)}"), kernel.compilations(compiled.append):
            problem = entry()
            warm(problem)
            warm_batch(problem)
            compile_uncalled()
        rows.append((entry.name, len(compiled), time.perf_counter() - start))
    folder, count, size = store.kept()
    problems = [dict(zip(("name", "compiled", "seconds"), row, strict=True)) for row in rows]
    data = {"problems": problems, "folder": str(folder), "kernels": count, "bytes": size}
    table = ["problem", "kernels compiled", "seconds"], [[name, str(n), f"{t:.1f}"] for name, n, t in rows]
    tell(as_json, data, table, f"{folder}: {count} files, {size / 1e6:.1f} MB")


for command in (
    solve, mpc, check, comparing.compare, comparing.demo, simulating.play, replanning.drive, replanning.replan,
    replanning.node, resuming.resume, teaching.teach, sweep, soft.simulate, bench,
):  # fmt: skip
    main.add_command(command)
