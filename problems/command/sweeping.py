"""The command ``mayne sweep``: many solves by a plan in a TOML file, in shares if so asked.

problem = "arm/reach"
into = "reach.zarr"
samples = 1000
start = "neighbours"            # also: solver, tolerance, max_iterations, keep, dtype, retries, processes, seed, verify

[parameters]                    # of the problem, as `mayne list arm/reach` shows them
horizon = 80

[over.x0]
normal = 0.1                    # standard deviation about the problem's own, along tangents
[over.target]
shift = 0.2                     # a pose moved by up to so much along each axis [m]
[over.masses]
times = [0.8, 1.2]              # the problem's own numbers times one between these, each; or plus = [-0.1, 0.1]
[over."running[0].weights"]
file = "weights.npy"            # one sample a row; or values = [...]
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import numpy as np

from ddp.errors import ModelError, ProblemError, affordable, as_array, choice, instance, integer, one_of, positive, said
from ddp.many.solve_many import KEPT, solve_many
from ddp.options import DDP
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.robots.inspection import read_bytes
from problems.command.output import tell
from problems.command.parameters import build, parameters
from problems.command.shell import JSON, SOLVERS, end
from problems.registry import find

OPTIONS: dict[str, Any] = {
    "problem": None, "into": None, "samples": None, "seed": 0, "start": None, "solver": "ddp", "tolerance": 1e-9,
    "max_iterations": 1000, "keep": list(KEPT), "dtype": "float64", "retries": 1, "processes": None, "parameters": {},
    "over": {}, "verify": None,
}  # fmt: skip
"""Entries of a plan, with what stands for those that it lacks."""

WAYS = "normal", "times", "plus", "shift", "file", "values"


@click.command()
@click.argument("plan", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--shard", metavar="NUMBER/COUNT",
    help="Solve one of so many shares, into a store that all write to. Shares are of blocks of some 32 samples.",
)  # fmt: skip
@click.option("--into", type=click.Path(), help="Another store than the plan's, if that has one.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@JSON
def sweep(plan: str, shard: str | None, into: str | None, quiet: bool, as_json: bool) -> None:
    """Solve a problem many times by the plan in file PLAN, and keep the solutions in a store."""
    given = read(Path(plan), {} if into is None else {"into": into})
    problem, over = made(given, Path(plan).parent)
    for name, values in over.items():
        if given["samples"] not in (None, count := len(np.atleast_1d(values))):
            told = f"as many as the plan says, got {count}"
            raise ProblemError(f"over.{name}: expected {given['samples']} samples, {told}")
    if given["start"] is not None:
        one_of("start", given["start"], ("neighbours", "own guess"))
    instance("verify", given["verify"], (bool, type(None)), "true or false")
    start = None if given["start"] == "own guess" else given["start"]
    processes = None if given["processes"] is None else integer("processes", given["processes"], 1)
    solutions = solve_many(
        problem, over, _solver(given), processes, start, given["into"], given["keep"], given["dtype"],
        given["retries"], not quiet, None if shard is None else share(shard), given["verify"],
    )  # fmt: skip
    done, converged = int(solutions.done.sum()), int(solutions.converged[solutions.done].sum())
    failures = [one._asdict() for one in solutions.failures()] if as_json else []
    data = {"samples": len(solutions), "solved": done, "converged": converged, "failures": failures}
    tell(as_json, data, f"{given['into']}: {solutions}")
    end(done == converged)


def read(path: Path, instead: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The entries of a plan, or those that are given instead; ProblemError for one that there is not."""
    try:
        entries = tomllib.loads(read_bytes(path, str(path)).decode())
    except ModelError as reason:
        raise ProblemError(str(reason)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as reason:
        raise ProblemError(f"{path}: cannot be read as TOML: {reason}") from None
    for name in entries:
        choice(str(path), name, OPTIONS, "there is no entry")
    entries |= instead
    for name in ("problem", "into", "over"):
        if name not in entries:
            raise ProblemError(f"{path}: expected an entry {name}")
    for name in ("tolerance", "over"):
        _refuse_switches(name, entries.get(name))
    return OPTIONS | entries


def _refuse_switches(field: str, value: Any) -> None:
    """Refuse true and false among numbers, for which Python takes them."""
    if isinstance(value, bool):
        raise ProblemError(f"{field}: expected a number or a text, got {str(value).lower()}")
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        _refuse_switches(f"{field}.{key}" if isinstance(value, dict) else f"{field}[{key}]", one)


def made(given: Mapping[str, Any], folder: Path) -> tuple[Problem, dict[str, Array]]:
    """The problem of a plan, and what varies; files are looked for beside the plan."""
    entry = find(given["problem"])
    instance("parameters", given["parameters"], dict, "a table")
    known = parameters(entry)
    for name, value in given["parameters"].items():
        choice("parameters", name, known, f"{entry.name} has no")
        if not isinstance(known[name], bool):
            _refuse_switches(f"parameters.{name}", value)
    problem = build(entry, given["parameters"])
    if not isinstance(given["over"], dict) or not given["over"]:
        raise ProblemError(f"over: expected tables of what varies, [over.x0] for one, got {said(given['over'])}")
    rng = np.random.default_rng(integer("seed", given["seed"]))
    ways = given["over"].items()
    return problem, {name: _sampled(problem, name, way, given["samples"], rng, folder) for name, way in ways}


def _sampled(problem: Problem, name: str, way: Any, samples: Any, rng: np.random.Generator, folder: Path) -> Array:
    field = f"over.{name}"
    if not isinstance(way, dict) or len(way) != 1 or next(iter(way)) not in WAYS:
        raise ProblemError(f"{field}: expected one of {', '.join(WAYS)}, got {said(way)}")
    ((kind, value),) = way.items()
    if kind == "file":
        try:
            value = np.load(folder / str(value), allow_pickle=False)
        except (OSError, ValueError) as reason:
            raise ProblemError(f"{field}.file: cannot read {said(value)}: {reason}") from None
        if not isinstance(value, np.ndarray):
            raise ProblemError(f"{field}.file: expected one array, as of numpy.save, got an archive of several")
    if kind in ("file", "values"):
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as reason:
            sizes = {len(row) if isinstance(row, list) else 1 for row in (value if isinstance(value, list) else ())}
            told = f"rows have {' or '.join(map(str, sorted(sizes)))} of them" if len(sizes) > 1 else reason
            raise ProblemError(f"{field}.{kind}: expected numbers, one sample a row: {told}") from None
    if samples is None:
        raise ProblemError(f"samples: expected how many {field}.{kind} is to draw, got none")
    count = integer("samples", samples, 1)
    try:
        now = problem.number(name)
    except ProblemError as reason:
        raise ProblemError(f"{field}: {str(reason).removeprefix('varying: ')}") from None
    affordable("samples", count, count * now.size)
    if kind == "normal":
        size = positive(f"{field}.normal", value)
        if name == "x0":
            steps = size * rng.normal(size=(count, problem.dynamics.n))
            return np.array([problem.dynamics.integrate(problem.x0, step) for step in steps])
        return _varied(f"{field}.normal", now, now + size * rng.normal(size=(count, *now.shape)))
    if kind == "shift":
        if now.shape != (4, 4):
            raise ProblemError(f"{field}.shift: expected a pose to be moved, {name} is of shape {now.shape}")
        size, moved = positive(f"{field}.shift", value), np.tile(now, (count, 1, 1))
        moved[:, :3, 3] += rng.uniform(-size, size, (count, 3))
        return moved
    low, high = as_array(f"{field}.{kind}", value, (2,)).tolist()
    if not 0.0 <= high - low < np.inf:
        raise ProblemError(f"{field}.{kind}: expected the lower number first, got {said(value)}")
    drawn = rng.uniform(low, high, (count, *now.shape))
    return _varied(f"{field}.{kind}", now, now * drawn if kind == "times" else now + drawn)


def _varied(field: str, now: Array, drawn: Array) -> Array:
    """Samples that were drawn, unless all are what there is now, as products of zeros and sums with infinity are."""
    if (drawn == now).all():
        raise ProblemError(f"{field}: nothing would vary, the problem has {said(np.unique(now).tolist())} there")
    return drawn


def _solver(given: Mapping[str, Any]) -> DDP:
    choice("solver", name := given["solver"], SOLVERS)
    return SOLVERS[name](tolerance=given["tolerance"], max_iterations=given["max_iterations"])


def share(text: str) -> tuple[int, int]:
    """A share as the command line has it: "3/64"."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ProblemError(f"--shard: expected NUMBER/COUNT, as 3/64, got {said(text)}")
    return int(number), int(count)
