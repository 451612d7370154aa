"""Convergence plots show what happened, rejected steps and all."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import matplotlib.image
import numpy as np
import pytest

import viz
from ddp.errors import ProblemError


@dataclass
class Record:
    cost: float
    gradient: float
    step: float
    hessian: str
    gap: float = 0.0
    penalty: float = 0.0
    full_space: bool = False


@dataclass
class Outcome:
    cost: float
    history: list[Record]


def outcome(rate: float, kind: str) -> Outcome:
    records = [Record(1.0 + rate**k, rate**k, 0.0 if k == 3 else 0.5 ** (k % 3), kind) for k in range(12)]
    return Outcome(records[-1].cost, records)


SOLUTIONS = {"iLQR": outcome(0.5, "gauss-newton"), "DDP": outcome(0.1, "exact")}


def test_a_plot_is_written_and_not_blank(tmp_path):
    path = viz.plot_convergence(SOLUTIONS, tmp_path / "convergence.png", title="a reach")
    image = matplotlib.image.imread(path)
    assert path == tmp_path / "convergence.png"
    assert image.shape[0] > 400
    assert image.shape[1] > 1200
    assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > 20


def test_one_solution_needs_no_name(tmp_path):
    viz.plot_convergence(SOLUTIONS["DDP"], tmp_path / "one.svg")
    assert "<!-- 12 iterations -->" in (tmp_path / "one.svg").read_text()


def test_curves_are_broken_where_a_solve_starts_again(tmp_path):
    first, second = outcome(0.5, "exact").history, outcome(0.4, "exact").history
    for records, pieces in ((first, 1), (first + second, 2), (first + [replace(r, penalty=1.0) for r in second], 1)):
        viz.plot_convergence(Outcome(1.0, records), tmp_path / "again.svg")
        curve = (tmp_path / "again.svg").read_text().split("<!-- gradient norm -->")[0].split('id="axes_2"')[1]
        line = max(re.findall(r'<path d="([^"]*)" clip-path', curve), key=len)
        assert line.count("M ") == pieces


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_other_formats_are_by_suffix(tmp_path, suffix):
    assert viz.plot_convergence(SOLUTIONS, tmp_path / f"c{suffix}").stat().st_size > 1000


def test_a_solve_that_ended_at_once_is_drawn(tmp_path):
    viz.plot_convergence({"DDP": Outcome(1.0, [])}, tmp_path / "none.png")


@pytest.mark.parametrize(
    ("solutions", "name", "message"),
    [
        ({}, "c.png", "solutions: expected at least one"),
        (SOLUTIONS, "c.bmp", r"expected \.png"),
        (SOLUTIONS, "no/c.png", "existing folder"),
    ],
)
def test_bad_input_is_named(tmp_path, solutions, name, message):
    with pytest.raises(ProblemError, match=message):
        viz.plot_convergence(solutions, tmp_path / name)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda path: viz.plot_convergence(3.0, path), "solutions: expected a Solution or a mapping from names"),
        (lambda path: viz.plot_convergence({"DDP": 3.0}, path), r"solutions\['DDP'\]: expected a Solution, got 3.0"),
        (lambda path: viz.plot_convergence(SOLUTIONS, path, title=3), "title: expected a text .* got 3"),
        (lambda path: viz.plot_convergence(SOLUTIONS, "x" * 300 + ".png"), "path: expected the path of a file"),
        (
            lambda path: viz.plot_schedule({"left": [[1.0], [1.0, 0.0]]}, 0.1, path),
            r"schedule\['left'\]: expected one row of real numbers",
        ),
        (lambda path: viz.plot_forces({3: np.ones((2, 3))}, 0.1, path), "forces: a name: expected a text .* got 3"),
    ],
)
def test_arguments_of_another_kind_are_named(tmp_path, draw, words):
    with pytest.raises(ProblemError, match=words):
        draw(tmp_path / "plot.png")


def test_a_title_is_no_formula(tmp_path):
    assert viz.plot_convergence(SOLUTIONS, tmp_path / "c.png", title=r"$\foo$").exists()


def test_names_that_begin_with_an_underscore_are_in_the_legend(tmp_path):
    curves, times = ("_private", "-plain", "_"), np.array([1.0, 2.0])
    viz.plot_errors({name: (times, times) for name in curves}, tmp_path / "e.svg")
    viz.plot_growth(times, dict.fromkeys(curves, times), tmp_path / "g.svg")
    for path in ("e.svg", "g.svg"):
        drawn = (tmp_path / path).read_text(encoding="utf-8").split('id="legend_1"')[1]
        assert re.findall(r"<!-- (.*) -->", drawn) == ["_private", "-plain", "_"]


def test_a_screen_that_matplotlib_has_not_is_named():
    program = (
        "import viz\nfrom ddp.errors import ProblemError\n"
        "try:\n    viz.plot_growth([1.0, 2.0], {'a': [1.0, 2.0]}, 'never.svg')\n"
        "except ProblemError as reason:\n    print(reason)"
    )
    env = os.environ | {"MPLBACKEND": "nonsense"}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    assert said.startswith("MPLBACKEND: ")
    assert "'nonsense'" in said


def test_growth_is_drawn_as_given_and_bad_numbers_are_named(tmp_path):
    viz.plot_growth([5, 10, 20], {"$a$": [1.0, 2.0, 5.0]}, tmp_path / "g.svg", up="µs a knot")
    drawn = (tmp_path / "g.svg").read_text(encoding="utf-8")
    assert drawn.count("<!-- ") >= 6  # names of axes, ticks and the curve
    for counts, times in (([5.0, -1.0], {"a": [1.0, 2.0]}), ([5.0], {}), ([5.0], {"a": [0.0]})):
        with pytest.raises(ProblemError, match="counts, times: expected positive"):
            viz.plot_growth(counts, times, tmp_path / "g.svg")
    with pytest.raises(ProblemError, match=r"times\['a'\]: expected"):
        viz.plot_growth([5.0], {"a": [1.0, 2.0]}, tmp_path / "g.svg")
