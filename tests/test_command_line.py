"""The command line: what it prints, writes and answers, and how it fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import ddp
from ddp.compiling.store import cache_directory
from problems import ALL, cli
from problems.command import demo, dynamics_bench, output

SMALL = "pendulum/swing-up"


@pytest.fixture
def mayne():
    """Run the command with some arguments."""
    runner = CliRunner()
    return lambda *arguments: runner.invoke(cli.main, [str(argument) for argument in arguments])


def fails_with(result: Result, status: int, *words: str) -> None:
    """The run ended with a status and a message on standard error, not with a traceback."""
    assert result.exit_code == status, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("command", ["", "list", "solve", "compare", "play", "view", "check", "demo", "bench"])
def test_every_command_explains_itself(mayne, command):
    result = mayne(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_the_list_holds_every_problem(mayne):
    text = mayne("list").stdout
    rows = json.loads(mayne("list", "--json").stdout)
    assert [row["name"] for row in rows] == list(ALL)
    assert all(name in text for name in ALL)
    assert all(row["cost"] == ALL[row["name"]].cost for row in rows)


def test_the_robots_are_listed_with_their_degrees_of_freedom(mayne):
    result = mayne("list", "robots")
    listed = {name: (int(dof), base) for name, dof, base in map(str.split, result.stdout.splitlines()[1:])}
    assert result.exit_code == 0
    assert listed["ur5"] == (6, "fixed")
    assert listed["go2"] == (18, "floating")
    assert "cassie" not in listed
    assert "cassie" in result.stderr
    assert {row["name"] for row in json.loads(mayne("list", "robots", "--json").stdout)} == set(listed)


@pytest.mark.parametrize("folder", ["/proc/demo", "file/demo", "x" * 300])
def test_a_folder_that_the_demonstration_cannot_write_into_is_refused_at_once(mayne, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    fails_with(mayne("demo", "--folder", folder), 2, "--folder: cannot write into", folder)


def test_a_solve_prints_what_the_library_finds(mayne):
    entry = ALL[SMALL]
    problem = entry()
    expected = ddp.solve(problem, ddp.DDP(), entry.guess(problem))
    result = mayne("solve", SMALL, "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert answer["converged"] is True
    assert answer["cost"] == expected.cost
    assert len(answer["history"]) == answer["iterations"] == expected.iterations
    assert str(expected.iterations) in mayne("solve", SMALL).stdout


def test_a_solve_that_does_not_converge_says_so_with_its_exit_status(mayne):
    result = mayne("solve", SMALL, "--max-iterations", 2)
    assert result.exit_code == 1
    assert "not converged" in result.stdout
    assert mayne("compare", SMALL, "--max-iterations", 2).exit_code == 1


def test_a_saved_solution_can_be_viewed_again(mayne, tmp_path):
    saved, first, again = tmp_path / "swing.npz", tmp_path / "first.html", tmp_path / "again.html"
    plot = tmp_path / "swing.png"
    result = mayne("solve", SMALL, "--save", saved, "--html", first, "--plot", plot, "--solver", "ilqr")
    assert result.exit_code == 0, result.output
    problem = ALL[SMALL]()
    assert ddp.Solution.load(saved, problem).converged
    result = mayne("view", saved, "--html", again)
    assert result.exit_code == 0, result.output
    assert abs(first.stat().st_size - again.stat().st_size) < 100
    assert plot.stat().st_size > 10_000


def test_a_solution_saved_by_a_program_needs_the_name_of_its_problem(mayne, tmp_path):
    saved, page = tmp_path / "swing.npz", tmp_path / "swing.html"
    problem = ALL[SMALL]()
    ddp.solve(problem, ddp.DDP()).save(saved)
    fails_with(mayne("view", saved, "--html", page), 2, "--problem")
    assert mayne("view", saved, "--html", page, "--problem", SMALL).exit_code == 0
    fails_with(mayne("view", saved, "--html", page, "--problem", "cartpole/swing-up"), 2, "another problem")


def test_a_comparison_has_both_solvers(mayne, tmp_path):
    result = mayne("compare", SMALL, "--json", "--plot", tmp_path / "c.svg")
    solvers = json.loads(result.stdout)["solvers"]
    assert result.exit_code == 0
    assert solvers["ilqr"]["cost"] == pytest.approx(solvers["ddp"]["cost"], rel=1e-6)
    assert {record["hessian"] for record in solvers["ilqr"]["history"]} == {"gauss-newton"}
    assert (tmp_path / "c.svg").exists()
    table = mayne("compare", SMALL).stdout
    assert "iLQR" in table
    assert "DDP" in table


def test_derivatives_are_checked(mayne):
    result = mayne("check", SMALL)
    assert result.exit_code == 0
    assert "right" in result.stdout
    assert json.loads(mayne("check", SMALL, "--json").stdout)["ok"] is True


def test_the_linearisation_is_checked_and_drawn(mayne, tmp_path):
    result = mayne("check", "linearization", "--plot", tmp_path / "sweep.png")
    assert result.exit_code == 0
    assert "A is exact" in result.stdout
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    found = json.loads(mayne("check", "linearization", "--robot", "ur5", "--json").stdout)
    assert found["ok"] is True
    assert found["floor"] <= 1e-8
    fails_with(mayne("check", SMALL, "--plot", tmp_path / "s.png"), 2, "--plot: expected for linearization alone")
    fails_with(mayne("check", "linearization", "--horizon", 3), 2, "options: expected none of linearization")


def test_times_are_positive_numbers(mayne):
    times = json.loads(mayne("bench", SMALL, "--repeat", 2, "--json").stdout)["milliseconds"]
    assert times
    assert all(time > 0.0 for time in times.values())
    assert "derivatives" in mayne("bench", SMALL, "--repeat", 1).stdout


def test_tables_keep_what_is_in_brackets(capsys):
    output.print_table(["problem", "rms [cm]"], [["running[0] (Term)", "[/red]"]])
    assert {"rms [cm]", "running[0] (Term)", "[/red]"} <= set(re.split(r"\s{2,}|\n", capsys.readouterr().out))


def test_the_table_of_the_dynamics_compares_with_pinocchio(mayne, monkeypatch):
    monkeypatch.setattr(dynamics_bench, "ROBOTS", ("ur5",))
    monkeypatch.setattr(dynamics_bench, "CHAINS", {10: 1.1})
    rows = json.loads(mayne("bench", "dynamics", "--seconds", 0, "--json").stdout)["rows"]
    assert [row["robot"] for row in rows] == ["ur5"] * len(dynamics_bench.BARS) + ["chain 10"]
    assert dynamics_bench.first_calls(str(cache_directory())) > 0.0
    for row in rows:
        assert row["ratio"] == pytest.approx(row["microseconds"] / row["reference"])
        assert 0.0 < row["ratio"] < np.inf
    assert "at most" in mayne("bench", "dynamics", "--seconds", 0).stdout


def test_the_demonstration_compares_and_draws(mayne, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PROBLEMS", (SMALL, "arm/reach"))
    result = mayne("demo", "--folder", tmp_path / "out")
    assert result.exit_code == 0, result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    stems = ("pendulum-swing-up", "arm-reach")
    assert written == {f"{stem}{ending}" for stem in stems for ending in (".html", "-convergence.png")}
    assert all(name in result.stdout for name in written)
    assert result.stdout.count("iLQR") == 2


def test_another_robot_can_take_a_problem_over(mayne):
    answer = json.loads(mayne("solve", "arm/reach", "--robot", "ur10", "--json").stdout)
    assert answer["converged"] is True
    assert answer["cost"] != pytest.approx(ALL["arm/reach"].cost)


def test_a_problem_s_parameters_are_options(mayne, tmp_path):
    saved = tmp_path / "short.npz"
    answer = json.loads(mayne("solve", SMALL, "--horizon", 80, "--final-weight=500", "--save", saved, "--json").stdout)
    problem = ALL[SMALL].build(horizon=80, final_weight=500.0)
    assert ddp.Solution.load(saved, problem).cost == answer["cost"] == ddp.solve(problem).cost
    assert mayne("view", saved, "--html", tmp_path / "short.html").exit_code == 0  # the file knows its parameters
    assert mayne("check", SMALL, "--horizon", 20).exit_code == 0


def test_a_gait_is_solved_for_another_robot_and_drawn_with_its_forces(mayne, tmp_path):
    page, saved = tmp_path / "trot.html", tmp_path / "trot.npz"
    gait = "quadruped/trot", "--robot", "go2", "--speed", 0.4, "--dt", 0.02
    answer = json.loads(mayne("solve", *gait, "--json", "--save", saved, "--html", page).stdout)
    assert answer["converged"] is True
    assert "path and force of FL_foot" in page.read_text(encoding="utf-8")
    changed = json.loads(mayne("solve", *gait, "--weights-torque", 2, "--json").stdout)
    assert changed["cost"] > answer["cost"]
    plots = "--schedule", tmp_path / "s.svg", "--forces", tmp_path / "f.svg"
    assert mayne("solve", *gait, *plots).exit_code == 0
    assert "FL_foot" in (tmp_path / "s.svg").read_text(encoding="utf-8")
    assert "slips" in (tmp_path / "f.svg").read_text(encoding="utf-8")
    refused = mayne("solve", SMALL, "--schedule", tmp_path / "none.svg")
    assert refused.exit_code == 2
    assert "expected a problem with contacts" in refused.stderr
    assert mayne("view", saved, "--html", tmp_path / "again.html").exit_code == 0


def test_durations_of_a_gait_are_found_and_saved_with_its_motion(mayne, tmp_path):
    page, saved = tmp_path / "jump.html", tmp_path / "jump.npz"
    jump = "quadruped/jump", "--robot", "solo12", "--dt", 0.02, "--json"
    given = json.loads(mayne("solve", *jump).stdout)
    found = json.loads(mayne("solve", *jump, "--durations", "0.8,1.5", "--save", saved, "--html", page).stdout)
    assert found["converged"] is True
    assert found["cost"] < given["cost"]
    assert sum(found["durations"]) == pytest.approx(sum(found["solves"][0]["durations"]))
    assert mayne("view", saved, "--html", tmp_path / "again.html").exit_code == 0
    priced = mayne("solve", *jump[:-1], "--durations", "free", "--price-of-time", 0.1).stdout
    assert "durations" in priced
    short = mayne("solve", *jump, "--durations", "0.8,1.5", "--max-iterations", 1)
    assert short.exit_code == 1
    assert "the motion is not converged" in json.loads(short.stdout)["status"]


def test_a_problem_tells_its_parameters(mayne):
    parameters = json.loads(mayne("list", "arm/throw", "--json").stdout)["parameters"]
    text = mayne("list", "arm/throw").stdout
    assert parameters["horizon"] == 60
    assert all(f"--{name.replace('_', '-')}" in text for name in parameters)


def test_numbers_with_commas_are_an_array(mayne):
    arguments = "--position", "0.4,0.3,0.9", "--horizon", 20, "--json"
    moved = json.loads(mayne("solve", "arm/out-of-reach", *arguments).stdout)
    assert moved["cost"] < 0.5 * ALL["arm/out-of-reach"].cost


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "quadruped/trot", "--weights-torq", "1"], ["--weights-torq", "'--weights-torque'"]),
        (["solve", SMALL, "--horizen", "80"], ["--horizen", "did you mean '--horizon'"]),
        (["solve", SMALL, "--tolerence", "1"], ["--tolerence", "'--tolerance'"]),
        (["solve", SMALL, "--horizon", "many"], ["--horizon", "whole number", "'many'"]),
        (["solve", SMALL, "--horizon", "3,4"], ["--horizon", "one number", "'3,4'"]),
        (["solve", SMALL, "--mass", "heavy"], ["--mass", "'heavy'"]),
        (["solve", SMALL, "--horizon"], ["--horizon", "value"]),
        (["solve", SMALL, "80"], ["'80'"]),
        (["list", "robot"], ["did you mean 'robots'"]),
        (["solve", SMALL, "--html", "."], ["--html: expected a file, got a folder"]),
        (["list", "arm/reac"], ["did you mean 'arm/reach'"]),
        (["solve", "arm/reac"], ["arm/reac", "did you mean 'arm/reach'"]),
        (["compare", "nothing"], ["nothing"]),
        (["solve", SMALL, "--tolerance", "-1"], ["tolerance", "-1"]),
        (["solve", SMALL, "--max-iterations", "0"], ["max_iterations"]),
        (["solve", SMALL, "--workers", "0"], ["workers"]),
        (["solve", SMALL, "--durations", "free"], ["expected one with phases"]),
        (["solve", SMALL, "--price-of-time", "5"], ["--price-of-time: expected together with --durations"]),
        (["solve", "quadruped/stand", "--phase-durations", "0.1,0.2"], ["phase_durations: expected shape"]),
        (["solve", "quadruped/stand", "--durations", "long"], ["free or two numbers", "'long'"]),
        (["solve", SMALL, "--solver", "sqp"], ["sqp", "ilqr"]),
        (["solve", SMALL, "--robot", "ur5"], ["robot"]),
        (["solve", "arm/reach", "--robot", "ur6"], ["ur6", "did you mean"]),
        (["solve", "arm/reach", "--robot", "no_such_file.urdf"], ["no_such_file.urdf"]),
        (["solve", SMALL, "--html", "no/such/folder/a.html"], ["folder"]),
        (["solve", SMALL, "--plot", "a.bmp"], ["a.bmp"]),
        (["view", "no_such_file.npz"], ["no_such_file.npz"]),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_bad_input_is_named_and_answered_with_two(mayne, arguments, words):
    fails_with(mayne(*arguments), 2, *words)


def test_kernels_are_compiled_ahead(mayne, tmp_path):
    assert json.loads(mayne("solve", SMALL, "--json").stdout)["converged"]
    result = mayne("warm", SMALL, "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert [(row["name"], row["compiled"]) for row in told["problems"]] == [(SMALL, 0)]
    assert told["folder"] == str(cache_directory() / "kernels")
    assert told["kernels"] == len(list((cache_directory() / "kernels").glob("*.kernel"))) > 100
    assert told["bytes"] > 1e5
    fails_with(mayne("warm", "pendulum/swing"), 2, "pendulum/swing", "did you mean")


def test_solutions_are_saved_with_their_problem_in_one_step(mayne, tmp_path):
    result = mayne("solve", SMALL, "--save", tmp_path / "swing.npz")
    assert result.exit_code == 0
    assert f"wrote {tmp_path / 'swing.npz'}" in result.stderr
    kept = (tmp_path / "swing.npz").read_bytes()
    assert ddp.Solution.load(tmp_path / "swing.npz").converged
    assert mayne("view", tmp_path / "swing.npz", "--html", tmp_path / "swing.html").exit_code == 0
    assert (tmp_path / "swing.npz").read_bytes() == kept
    assert {path.name for path in tmp_path.iterdir()} <= {"swing.npz", "swing.html"}


def test_commands_run_without_docstrings_and_assertions():
    program = (
        "import ddp, viz, sys; from ddp.compiling.kernel import kernel; from problems import ALL, cli\n"
        "print(kernel(lambda x: 2.0 * x)(1.5), len(ALL) > 10)\n"
        "cli.main(['list', 'quadruped/trot'])\n"
    )
    command = [sys.executable, "-OO", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.startswith("3.0 True\nquadruped/trot: ")


def test_numba_without_its_compiler_is_answered_in_a_sentence():
    command = [sys.executable, "-m", "problems", "solve", SMALL]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error: NUMBA_DISABLE_JIT is set" in done.stderr


def test_a_file_that_is_no_solution_is_refused(mayne, tmp_path):
    other, damaged = tmp_path / "other.npz", tmp_path / "damaged.npz"
    np.savez(other, X=np.zeros(3))
    damaged.write_bytes(b"PK\x03\x04 not a zip")
    fails_with(mayne("view", other, "--problem", SMALL), 2, "not a solution")
    fails_with(mayne("view", damaged), 2, "not a solution")


def test_standard_output_is_pure_json_in_a_process_of_its_own():
    command = [sys.executable, "-m", "problems", "solve", SMALL, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(done.stdout)["converged"] is True


def test_compiling_is_announced_on_standard_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MAYNE_CACHE_DIR", str(tmp_path))
    code = (
        "import numpy as np; from ddp.compiling import kernel; from problems.command.progress import progress\n"
        "double = kernel.kernel(lambda x: 2.0 * x)\n"
        "with progress('doubling'): print(double(np.float64(2.0)))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "4.0"
    assert done.stderr.count("compiling kernels (first run only)") == 1


def test_a_receding_horizon_catches_pushes(mayne, tmp_path):
    page = tmp_path / "loop.html"
    arguments = "mpc", "arm/reach", "--horizon", 30, "--steps", 30, "--every", 10, "--html", page, "--json"
    answer = json.loads(mayne(*arguments).stdout)
    assert answer["pushes"] == 3
    assert answer["terminal_cost_at_last"] < 0.5 * answer["terminal_cost_at_first"]
    assert answer["median_milliseconds"] > 0.0
    assert page.stat().st_size > 10_000
    fails_with(mayne("mpc", "quadruped/stand"), 2, "PhasedDynamics")
    fails_with(mayne("mpc", SMALL, "--steps", 0), 2, "steps")


@pytest.mark.parametrize("option", ["--save", "--html", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_solved(mayne, tmp_path, monkeypatch, option):
    def solving(*arguments, **options):
        raise AssertionError("it was solved")

    monkeypatch.setattr(cli, "solve_problem", solving)
    fails_with(mayne("solve", SMALL, option, tmp_path / "none" / "x.png"), 2, option, "existing folder")
    fails_with(mayne("solve", SMALL, "--plot", tmp_path / "x.txt"), 2, "--plot: expected .png or .pdf or .svg")
    fails_with(mayne("solve", SMALL, "--forces", tmp_path / "x.png"), 2, "expected a problem with contacts")


@pytest.mark.parametrize("gait", ["quadruped/pace", "quadruped/jump", "biped/step"])
def test_the_help_of_a_gait_is_complete(mayne, gait):
    text = mayne("list", gait).stdout
    about, table = text.split("parameter ")
    for row in table.splitlines()[1:]:
        name = row.split()[0].removeprefix("--").removeprefix("weights-").replace("-", "_")
        assert name == "robot" or name in about
    assert "walk`" not in text


def test_the_motion_of_a_robot_is_viewed_without_a_problem(mayne, tmp_path):
    saved, page = tmp_path / "own.npz", tmp_path / "own.html"
    solution = ddp.solve(ALL["arm/reach"].build(horizon=20))
    solution.save(saved)
    assert mayne("view", saved, "--robot", "ur5", "--dt", 0.02, "--html", page).exit_code == 0
    assert page.stat().st_size > 10_000
    fails_with(mayne("view", saved, "--html", page), 2, "--problem", "--robot and --dt", "mayne.save_html")
    fails_with(mayne("view", saved, "--robot", "panda", "--dt", 0.02, "--html", page), 2, "--robot: expected", "12")
    fails_with(mayne("view", saved, "--robot", "ur5", "--dt", -1, "--html", page), 2, "--dt")
    fails_with(mayne("view", saved, "--problem", "arm/reach", "--dt", 1, "--html", page), 2, "--dt")


def test_a_motion_is_played_in_mujoco_beside_a_joint_pd(mayne, tmp_path):
    page, plot, gains = (tmp_path / name for name in ("trot.html", "errors.png", "gains.csv"))
    files = "--html", page, "--plot", plot, "--export", gains
    result = mayne("play", "quadruped/trot", "--robot", "solo12", "--push", "0.3", *files)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[-2] for row in rows[:2]] == ["stayed", "stayed"]
    assert float(rows[0][1]) < float(rows[1][-4]) < 10.0
    assert all(path.stat().st_size > 1000 for path in (page, plot, gains))
    assert "the motion beside it" in page.read_text()


def test_a_saved_motion_is_played_with_the_conditions_it_is_given(mayne, tmp_path):
    saved = tmp_path / "swing.npz"
    assert mayne("solve", SMALL, "--horizon", 20, "--save", saved).exit_code == 0
    told = json.loads(mayne("play", saved, "--delay", 0.002, "--known-delay", "--rate", 500, "--json").stdout)
    assert told["problem"] == SMALL
    assert told["conditions"]["rate"] == 500.0
    assert set(told["runs"]) == {"policy", "joint PD", "torques alone"}
    fails_with(mayne("play", saved, "--push", "far"), 2, "--push: expected a number")
    fails_with(mayne("play", SMALL, "--push", "0.3"), 2, "push: expected none, the base of pendulum is fixed")
    fails_with(mayne("play", "pendulum/swing"), 2, "pendulum/swing-up")
