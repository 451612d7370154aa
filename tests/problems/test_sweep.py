"""The command ``mayne sweep``: plans in TOML files, and shares of them."""

import json

import numpy as np
import pytest
from commands import fails_with, mayne

import ddp
from problems import pendulum
from problems.command.sweeping import made, read

PLAN = """
problem = "pendulum/swing-up"
into = "{into}"
samples = 40
seed = 3
start = "neighbours"
processes = 1

[parameters]
horizon = 30

[over.x0]
normal = 0.2
[over.masses]
times = [0.9, 1.1]
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.format(into=tmp_path / "a.zarr"))
    return path


def test_shares_of_a_plan_make_the_store_that_one_run_makes(plan, tmp_path):
    other = tmp_path / "without-into.toml"
    other.write_text("".join(line for line in plan.read_text().splitlines(True) if not line.startswith("into")))
    whole = mayne("sweep", other, "--into", tmp_path / "b.zarr", "--quiet", "--json")
    assert whole.exit_code == 0, whole.output
    assert json.loads(whole.stdout) == {"samples": 40, "solved": 40, "converged": 40, "failures": []}
    for number in (2, 1):
        mayne("sweep", plan, "--shard", f"{number}/2", "--quiet")
    a, b = (tmp_path / name for name in ("a.zarr", "b.zarr"))
    names = [str(file.relative_to(a)) for file in a.rglob("*") if file.is_file()]
    assert sorted(names) == sorted(str(file.relative_to(b)) for file in b.rglob("*") if file.is_file())
    assert all((a / name).read_bytes() == (b / name).read_bytes() for name in names)
    solutions = ddp.Solutions.open(tmp_path / "a.zarr", pendulum.swing_up(horizon=30))
    assert solutions.solution(7).stationarity() < 1e-6


def test_samples_are_what_the_plan_says(plan, tmp_path):
    np.save(tmp_path / "weights.npy", np.arange(1.0, 5.0)[:, None])
    plan.write_text(
        'problem = "arm/reach"\ninto = "a.zarr"\nsamples = 4\n'
        '[over.target]\nshift = 0.2\n[over.x0]\nplus = [0.0, 0.1]\n'
        '[over."running[0].weights"]\nvalues = [[1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]]\n'
    )
    problem, over = made(read(plan), tmp_path)
    moved = over["target"] - problem.terminal[0].target.homogeneous
    assert over["target"].shape == (4, 4, 4)
    assert (moved[:, :3, :3] == 0.0).all()
    assert 0.0 < np.abs(moved[:, :3, 3]).max() <= 0.2
    assert ((over["x0"] >= problem.x0) & (over["x0"] <= problem.x0 + 0.1)).all()
    assert over["running[0].weights"].shape == (2, 6)


@pytest.mark.parametrize(("change", "words"), [
    (("start =", "begin ="), "there is no entry 'begin'; known are"),
    (("samples = 40", "samples = 0"), "samples: expected a whole number of at least 1"),
    (("normal = 0.2", "uniform = 0.2"), "over.x0: expected one of normal, times, plus, shift, file, values"),
    (("[over.masses]", "[over.massses]"), "the problem has no number 'massses'"),
    (("normal = 0.2", "file = 'no.npy'"), "over.x0.file: cannot read 'no.npy'"),
    (("horizon = 30", "horizons = 30"), "parameters: pendulum/swing-up has no 'horizons'"),
    (("normal = 0.2", "shift = 0.2"), "over.x0.shift: expected a pose"),
    (("normal = 0.2", "values = ['a']"), "over.x0.values: expected numbers, one sample a row"),
    (("normal = 0.2", "values = [[0.1, 0.2], [0.1]]"), "one sample a row: rows have 1 or 2 of them"),
    (("seed = 3", "verify = 'yes'"), "verify: expected true or false, got 'yes'"),
    (("normal = 0.2", "values = [[0.1, 0.2]]"), "over.x0: expected 40 samples, as many as the plan says, got 1"),
    (("times = [0.9, 1.1]", "times = [1.1, 0.9]"), "over.masses.times: expected the lower number first"),
    (("times = [0.9, 1.1]", "times = [0.9, true]"), "over.masses.times[1]: expected a number or a text, got true"),
    (("horizon = 30", "dt = true"), "parameters.dt: expected a number or a text, got true"),
    (("seed = 3", "tolerance = false"), "tolerance: expected a number or a text, got false"),
    (("times = [0.9, 1.1]", "plus = [-1e308, 1e308]"), "over.masses.plus: expected the lower number first"),
    (("samples = 40", "samples = 1000000000000000"), "samples: 1000000000000000 would need"),
    (("seed = 3", "seed = ["), "cannot be read as TOML"),
    (("seed = 3", "solver = {tolerance = 1e-6}"), "solver: unknown {'tolerance': 1e-06}; known are 'ddp', 'ilqr'"),
    (("processes = 1", "processes = 0"), "processes: expected a whole number of at least 1, got 0"),
    (("neighbours", "neighbors"), "start: expected one of 'neighbours', 'own guess', got 'neighbors'"),
    (("samples = 40", ""), "samples: expected how many over.x0.normal is to draw, got none"),
    (("normal = 0.2", "times = [0.8, 1.2]"), "over.x0.times: nothing would vary, the problem has [0.0] there"),
    (("masses]\ntimes", "control_limits]\nplus"), "plus: nothing would vary, the problem has [-inf, inf] there"),
    (("normal = 0.2", "file = 'two.npz'"), "over.x0.file: expected one array, as of numpy.save, got an archive"),
])  # fmt: skip
def test_bad_plans_are_refused_with_the_entry(plan, change, words):
    plan.write_text(plan.read_text().replace(*change))
    np.savez(plan.with_name("two.npz"), a=np.zeros(2), b=np.zeros(2))
    fails_with(mayne("sweep", plan, "--quiet"), 2, words)


def test_a_plan_without_tables_of_what_varies_says_what_it_has(plan):
    plan.write_text('problem = "pendulum/swing-up"\ninto = "a.zarr"\nover = 3\n')
    fails_with(mayne("sweep", plan, "--quiet"), 2, "over: expected tables of what varies, [over.x0] for one, got 3")


def test_bad_shares_are_refused(plan):
    fails_with(mayne("sweep", plan, "--shard", "3", "--quiet"), 2, "--shard: expected NUMBER/COUNT, as 3/64, got '3'")
    fails_with(mayne("sweep", plan, "--shard", "3/2", "--quiet"), 2, "shard: expected a number of 1 to 2")


def test_a_plan_that_is_a_device_without_an_end_is_refused():
    fails_with(mayne("sweep", "/dev/zero"), 2, "/dev/zero: expected a file, got a device")
