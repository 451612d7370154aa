"""The command line: what it prints, writes and answers, and how it fails."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, fails_with, mayne
from example_robot_data import robots_loader
from thorough import cases

import ddp
from ddp.compiling import kernel
from ddp.compiling.store import cache_directory
from problems import ALL
from problems.command import comparing, dynamics_bench, listing, output, papers
from problems.command.parameters import HOW, build, parse


@pytest.mark.parametrize(
    "command", ["", "list", "solve", "compare", "play", "drive", "node", "replan", "view", "check", "demo", "bench"]
)
def test_every_command_explains_itself(command):
    result = mayne(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_the_list_holds_every_problem():
    text = mayne("list").stdout
    rows = json.loads(mayne("list", "--json").stdout)
    assert [row["name"] for row in rows] == list(ALL)
    assert all(name in text for name in ALL)
    assert all(row["cost"] == ALL[row["name"]].cost for row in rows)


def test_the_robots_are_listed_with_their_degrees_of_freedom(monkeypatch):
    every = robots_loader.ROBOTS  # all are loaded in tests/dynamics/test_urdf_bodies.py
    some = cases(sorted(every), ["cassie", "go2", "romeo", "ur5"])
    monkeypatch.setattr(robots_loader, "ROBOTS", {name: every[name] for name in some})
    monkeypatch.setattr(listing, "loadable", cache(listing.loadable))
    result = mayne("list", "robots")
    listed = {name: (int(dof), base) for name, dof, base in map(str.split, result.stdout.splitlines()[1:])}
    assert result.exit_code == 0
    assert listed["ur5"] == (6, "fixed")
    assert listed["go2"] == (18, "floating")
    assert listed["cassie"] == (32, "floating")
    assert "romeo" not in listed
    assert "romeo" in result.stderr
    assert {row["name"] for row in json.loads(mayne("list", "robots", "--json").stdout)} == set(listed)


@pytest.mark.parametrize("folder", ["/proc/demo", "file/demo", "x" * 300])
def test_a_folder_that_the_demonstration_cannot_write_into_is_refused_at_once(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    fails_with(mayne("demo", "--folder", folder), 2, "--folder: cannot write into", folder)


def test_a_solve_prints_what_the_library_finds():
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


def test_a_solve_that_does_not_converge_says_so_with_its_exit_status():
    result = mayne("solve", SMALL, "--max-iterations", 2)
    assert result.exit_code == 1
    assert "not converged" in result.stdout
    assert mayne("compare", SMALL, "--max-iterations", 2).exit_code == 1


def test_a_comparison_has_both_solvers(tmp_path):
    page, report = tmp_path / "c.html", tmp_path / "report.html"
    result = mayne("compare", SMALL, "--json", "--plot", tmp_path / "c.svg", "--html", page, "--report", report)
    told = report.read_text()
    assert told.count("<svg") == 2
    assert all(part in told for part in ("<iframe srcdoc=", "order at the end", f"mayne compare {SMALL}", "held by"))
    assert all(f"</i>{title}</label>" in page.read_text() for title in ("iLQR", "DDP"))
    solvers = json.loads(result.stdout)["solvers"]
    assert result.exit_code == 0
    assert solvers["ilqr"]["cost"] == pytest.approx(solvers["ddp"]["cost"], rel=1e-6)
    assert {record["hessian"] for record in solvers["ilqr"]["history"]} == {"gauss-newton"}
    assert (tmp_path / "c.svg").exists()
    table = mayne("compare", SMALL).stdout
    assert "iLQR" in table
    assert "DDP" in table


def test_a_report_names_every_term_and_constraint(tmp_path):
    mayne("compare", "integrator/quickest", "--max-iterations", 1, "--report", tmp_path / "report.html")
    told = (tmp_path / "report.html").read_text()
    assert all(f"\n{place}[0] = " in told for place in ("during[range(1, 101)]", "terminal", "terminal_constraints"))


def test_derivatives_are_checked():
    result = mayne("check", SMALL)
    assert result.exit_code == 0
    assert "right" in result.stdout
    assert json.loads(mayne("check", SMALL, "--json").stdout)["ok"] is True


def test_the_linearisation_is_checked_and_drawn(tmp_path):
    result = mayne("check", "linearization", "--plot", tmp_path / "sweep.png")
    assert result.exit_code == 0
    assert "A is exact" in result.stdout
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    found = json.loads(mayne("check", "linearization", "--robot", "ur5", "--json").stdout)
    assert found["ok"] is True
    assert found["floor"] <= 1e-8
    fails_with(mayne("check", SMALL, "--plot", tmp_path / "s.png"), 2, "--plot: expected for linearization alone")
    fails_with(mayne("check", "linearization", "--horizon", 3), 2, "--horizon: `check linearization` has no parameters")


def test_times_are_positive_numbers():
    times = json.loads(mayne("bench", SMALL, "--repeat", 2, "--json").stdout)["milliseconds"]
    assert times
    assert all(time > 0.0 for time in times.values())
    assert "derivatives" in mayne("bench", SMALL, "--repeat", 1).stdout


def test_tables_keep_what_is_in_brackets(capsys):
    output.print_table(["problem", "rms [cm]"], [["running[0] (Term)", "[/red]"]])
    assert {"rms [cm]", "running[0] (Term)", "[/red]"} <= set(re.split(r"\s{2,}|\n", capsys.readouterr().out))


def test_the_table_of_the_dynamics_compares_with_pinocchio(monkeypatch):
    monkeypatch.setattr(dynamics_bench, "ROBOTS", ("ur5",))
    monkeypatch.setattr(dynamics_bench, "CHAINS", {10: 1.1})
    rows = json.loads(mayne("bench", "dynamics", "--seconds", 0, "--json").stdout)["rows"]
    assert [row["robot"] for row in rows] == ["ur5"] * len(dynamics_bench.BARS) + ["chain 10"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["microseconds"] / row["reference"])
        assert 0.0 < row["ratio"] < np.inf
    assert "at most" in mayne("bench", "dynamics", "--seconds", 0).stdout


def test_the_demonstration_compares_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "PROBLEMS", (SMALL, "arm/reach"))
    result = mayne("demo", "--folder", tmp_path / "out")
    assert result.exit_code == 0, result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    stems = ("pendulum-swing-up", "arm-reach")
    assert written == {f"{stem}{ending}" for stem in stems for ending in (".html", "-convergence.png")}
    assert all(name in result.stdout for name in written)
    assert result.stdout.count("iLQR") == 2


def test_another_robot_can_take_a_problem_over():
    answer = json.loads(mayne("solve", "arm/reach", "--robot", "ur10", "--json").stdout)
    assert answer["converged"] is True
    assert answer["cost"] != pytest.approx(ALL["arm/reach"].cost)


def test_a_problem_s_parameters_are_options(tmp_path):
    saved = tmp_path / "short.npz"
    answer = json.loads(mayne("solve", SMALL, "--horizon", 80, "--final-weight=500", "--save", saved, "--json").stdout)
    problem = ALL[SMALL].build(horizon=80, final_weight=500.0)
    assert ddp.Solution.load(saved, problem).cost == answer["cost"] == ddp.solve(problem).cost
    assert mayne("view", saved, "--html", tmp_path / "short.html").exit_code == 0  # the file knows its parameters
    assert mayne("check", SMALL, "--horizon", 20).exit_code == 0


def test_a_gait_is_solved_for_another_robot_and_drawn_with_its_forces(tmp_path):
    page, saved = tmp_path / "trot.html", tmp_path / "trot.npz"
    gait = "quadruped/trot", "--robot", "go2", "--speed", 0.4, "--dt", 0.02
    plots = "--schedule", tmp_path / "s.svg", "--forces", tmp_path / "f.svg"
    answer = json.loads(mayne("solve", *gait, "--json", "--save", saved, "--html", page, *plots).stdout)
    assert answer["converged"] is True
    assert "path and force of FL_foot" in page.read_text(encoding="utf-8")
    changed = json.loads(mayne("solve", *gait, "--weights-torque", 2, "--json").stdout)
    assert changed["cost"] > answer["cost"]
    assert "FL_foot" in (tmp_path / "s.svg").read_text(encoding="utf-8")
    assert "slips" in (tmp_path / "f.svg").read_text(encoding="utf-8")
    refused = mayne("solve", SMALL, "--schedule", tmp_path / "none.svg")
    assert refused.exit_code == 2
    assert "expected a problem with contacts" in refused.stderr
    assert mayne("view", saved, "--html", tmp_path / "again.html").exit_code == 0


def test_durations_of_a_gait_are_found_and_saved_with_its_motion(tmp_path):
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


def test_a_problem_tells_its_parameters():
    parameters = json.loads(mayne("list", "arm/throw", "--json").stdout)["parameters"]
    text = mayne("list", "arm/throw").stdout
    assert parameters["horizon"] == 60
    assert all(f"--{name.replace('_', '-')}" in text for name in parameters)


def test_numbers_with_commas_are_an_array():
    arguments = "--position", "0.4,0.3,0.9", "--horizon", 20, "--json"
    moved = json.loads(mayne("solve", "arm/out-of-reach", *arguments).stdout)
    assert moved["cost"] < 0.5 * ALL["arm/out-of-reach"].cost


def test_rows_with_semicolons_are_a_matrix():
    entry = ALL["arm/reach"]
    pose = np.eye(4)
    pose[:3, 3] = 0.4, 0.2, 0.5
    example = HOW.split('"')[1]
    assert example in mayne("list", entry.name).stdout
    problem = build(entry, parse(entry, ["--target", example]))
    assert np.array_equal(problem.number("target"), pose)
    told = mayne("solve", entry.name, "--target", example, "--json")
    assert json.loads(told.stdout)["cost"] == ddp.solve(problem, throw=False).cost


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "arm/reach", "--target", "[[1,0],[0,1]]"], ["--target", "rows of a matrix semicolons", "'[[1,0]"]),
        (["solve", "arm/reach", "--target", "pose.npy"], ["--target", "rows of a matrix semicolons", "'pose.npy'"]),
        (["solve", "arm/reach", "--target", "1,2,3"], ["--target: expected shape (4, 4), got (3,)", "; several", HOW]),
        (["solve", "arm/reach", "--target", "1,0;0"], ["--target", "rows of one length", "'1,0;0'"]),
        (["solve", SMALL, "--horizon", "3;4"], ["--horizon", "one number", "'3;4'"]),
        (["solve", "quadruped/trot", "--weights-torq", "1"], ["--weights-torq", "'--weights-torque'"]),
        (["solve", SMALL, "--horizen", "80"], ["--horizen", "did you mean '--horizon'"]),
        (["play", SMALL, "--durations", "free"], ["--durations: pendulum", "it is an option of `mayne solve`"]),
        (["solve", SMALL, "--push", "1"], ["--push", "it is an option of `mayne mpc`, `mayne play`, `mayne replan`"]),
        (["solve", SMALL, "--tol", "1"], ["--tol: pendulum/swing-up has no", "did you mean '--tolerance'?"]),
        (["solve", SMALL, "--tolerence", "1"], ["--tolerence", "'--tolerance'"]),
        (["replan", "quadruped/trot", "--htlm", "a.html"], ["--htlm: quadruped/trot has no", "did you mean '--html'"]),
        (["replan", "quadruped/trot", "--workers", "3"], ["it is an option of `mayne solve`"]),
        (["check", "arm/reach", "--knots", "3"], ["did you mean '--plot' or '--robot' or '--dt'"]),
        (["solve", SMALL, "--horizon", "many"], ["--horizon", "whole number of steps of --dt seconds", "'many'"]),
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
        (["solve", SMALL, "--durations", "free"], ["--price-of-time: expected one where all of a motion's time"]),
        (["solve", "car/parking", "--durations", "free"], ["expected one with phases", "got FunctionDynamics"]),
        (["solve", "rocket/landing", "--durations", "free", "--price-of-time", "1", "--save", "a.npz"],
         ["--save: expected without --durations, rocket/landing has no dt"]),
        (["solve", "acrobot/swing-up", "--durations", "1.1,1.2", "--price-of-time", "1", "--save", "a.npz"],
         ["--save: expected without --durations: acrobot/swing-up with another --dt is another"]),
        (["solve", SMALL, "--durations", "2,0.5", "--price-of-time", "1"], ["--durations: expected least,most with"]),
        (["solve", "quadruped/jump", "--durations", "1.2,1.5"], ["--durations: expected least <= 1 <= most where"]),
        (["solve", SMALL, "--durations", "free", "--price-of-time", "-1"], ["--price-of-time: expected no negative"]),
        (["solve", SMALL, "--price-of-time", "5"], ["--price-of-time: expected together with --durations"]),
        (["solve", "quadruped/stand", "--phase-durations", "0.1,0.2"], ["--phase-durations: expected shape"]),
        (["solve", "quadruped/stand", "--durations", "long"], ["free or two numbers", "'long'"]),
        (["solve", SMALL, "--solver", "sqp"], ["sqp", "ilqr"]),
        (["solve", SMALL, "--robot", "ur5"], ["robot"]),
        (["solve", "arm/reach", "--robot", "ur6"], ["ur6", "did you mean"]),
        (["solve", "quadruped/trot", "--robot", "panda"], ["panda on a fixed one: `mayne list robots` tells"]),
        (["solve", "arm/reach", "--robot", "xyzzy"], ["example-robot-data (`mayne list robots`) is called 'xyzzy'"]),
        (["solve", "xyzzy"], ["`mayne list` has none called 'xyzzy'; known are"]),
        (["solve"], ["Missing argument 'NAME'. `mayne list` tells the names."]),
        (["solve", "arm/reach", "--robot", "no_such_file.urdf"], ["no_such_file.urdf"]),
        (["solve", SMALL, "--html", "no/such/folder/a.html"], ["folder"]),
        (["solve", SMALL, "--plot", "a.bmp"], ["a.bmp"]),
        (["view", "no_such_file.npz"], ["no_such_file.npz"]),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_bad_input_is_named_and_answered_with_two(arguments, words):
    fails_with(mayne(*arguments), 2, *words)


def test_kernels_are_compiled_ahead(tmp_path):
    before = len(list((cache_directory() / "kernels").glob("*.kernel")))
    result = mayne("warm", SMALL, "--json")
    after = len(list((cache_directory() / "kernels").glob("*.kernel")))  # other tests compile at the same time
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert [row["name"] for row in told["problems"]] == [SMALL]
    compiled = []
    with kernel.compilations(compiled.append):
        assert json.loads(mayne("solve", SMALL, "--json").stdout)["converged"]
        again = json.loads(mayne("warm", SMALL, "--json").stdout)
    assert again["problems"][0]["compiled"] == 0
    assert not compiled
    assert told["folder"] == str(cache_directory() / "kernels")
    assert before <= told["kernels"] <= after
    assert told["kernels"] > 20
    assert told["bytes"] > 1e5
    fails_with(mayne("warm", "pendulum/swing"), 2, "pendulum/swing", "did you mean")


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


FULL = cases(["list", f"solve {SMALL}", f"solve {SMALL} --json"], ["list", f"solve {SMALL} --json"])
UNREAD = cases(["list", "list --json", f"solve {SMALL}", "solve --help"], ["list --json", f"solve {SMALL}"])
"""Commands whose output cannot be written, and is not read."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Exit status and standard error of commands by where they write; one process imports mayne and forks for all."""
    program = (
        "import os, sys\n"
        "from problems import cli\n"
        "cli.main(sys.argv[1].split(), standalone_mode=False)\n"  # kernels are loaded for all
        "reading, unread = os.pipe()\n"
        "os.close(reading)\n"
        "kept, full = (os.open(path, os.O_WRONLY | os.O_CREAT) for path in (sys.argv[2], '/dev/full'))\n"
        "places = {'kept': kept, 'full': full, 'unread': unread}\n"
        "sys.stdout.flush()\n"
        "for told in sys.argv[3:]:\n"
        "    place, _, line = told.partition(': ')\n"
        "    print(told, file=sys.stderr)\n"
        "    if os.fork() == 0:\n"
        "        os.dup2(places[place], 1)\n"
        "        cli.main(line.split(), prog_name='mayne')\n"
        "    print('ended with', os.waitstatus_to_exitcode(os.wait()[1]), file=sys.stderr)\n"
    )
    solve, written = f"solve {SMALL} --json", tmp_path_factory.mktemp("written") / "solve.json"
    told = [f"kept: {solve}", *(f"full: {line}" for line in FULL), *(f"unread: {line}" for line in UNREAD)]
    command = [sys.executable, "-c", program, solve, str(written), *told]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    places = {"kept": [], "full": [], "unread": []}
    for line, found in re.findall(r"^(\w+: .*)\n((?s:.*?)ended with -?\d+)$", done.stderr, flags=re.MULTILINE):
        assert line in told
        places[line.partition(":")[0]].append(found)
    return places, written.read_text()


def test_standard_output_is_pure_json_in_a_process_of_its_own(ended):
    places, written = ended
    assert places["kept"] == ["ended with 0"]
    assert json.loads(written)["converged"] is True


def test_output_into_a_file_on_a_full_disk_is_answered_in_a_sentence(ended):
    assert ended[0]["full"] == ["Error: standard output: No space left on device\nended with 2"] * len(FULL)


def test_a_reader_that_leaves_ends_the_command_without_a_word(ended):
    assert ended[0]["unread"] == [f"ended with {128 + signal.SIGPIPE}"] * len(UNREAD)


def test_compiling_is_announced_on_standard_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MAYNE_CACHE_DIR", str(tmp_path))
    code = (
        "import numpy as np; from ddp.compiling import kernel; from problems.command.output import progress\n"
        "double = kernel.kernel(lambda x: 2.0 * x)\n"
        "with progress('doubling'): print(double(np.float64(2.0)))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "4.0"
    assert done.stderr.count("compiling kernels (first run only)") == 1


def test_a_receding_horizon_catches_pushes(tmp_path):
    page = tmp_path / "loop.html"
    arguments = "mpc", "arm/reach", "--horizon", 30, "--steps", 30, "--every", 10, "--html", page, "--json"
    answer = json.loads(mayne(*arguments).stdout)
    assert answer["pushes"] == 3
    assert answer["terminal_cost_at_last"] < 0.5 * answer["terminal_cost_at_first"]
    assert answer["median_milliseconds"] > 0.0
    assert re.fullmatch(r"tool0 is .* from its target", *answer["misses"])
    assert page.stat().st_size > 10_000
    fails_with(mayne("mpc", "quadruped/stand"), 2, "PhasedDynamics")
    fails_with(mayne("mpc", SMALL, "--steps", 0), 2, "steps")


@pytest.mark.parametrize("command", [("mpc", "--steps", "150"), ("replan", "--duration", "1.5", "--every", "0.04")])
def test_plans_whose_end_recedes_are_told_to_chase_their_target_and_then_reach_it(command):
    name, *options = command
    put_off = mayne(name, "arm/reach", *options).stdout
    assert "plans arrive at their end, which recedes: pay for the target at every step, too, by --chase" in put_off
    chased = mayne(name, "arm/reach", *options, "--chase").stdout
    assert "--chase" not in chased
    away = re.search(r"tool0 is ([\d.]+) mm and [\d.]+° from its target", chased)
    assert float(away[1]) < 10.0
    fails_with(mayne(name, "pendulum/swing-up", "--chase"), 2, "--chase: expected for a problem whose end")


@pytest.mark.parametrize("gait", ["quadruped/pace", "quadruped/jump", "biped/step"])
def test_the_help_of_a_gait_is_complete(gait):
    text = mayne("list", gait).stdout
    about, table = text.split("parameter ")
    for row in table.splitlines()[1:]:
        name = row.split()[0].removeprefix("--").removeprefix("weights-").replace("-", "_")
        assert name == "robot" or name in about
    assert "walk`" not in text


def test_receding_horizons_control_their_robots(tmp_path):
    page, plot = tmp_path / "motion.html", tmp_path / "errors.png"
    files = "--html", str(page), "--plot", str(plot)
    reach = mayne("replan", "arm/reach", "--horizon", "10", "--duration", "0.2", "--json", *files)
    assert reach.exit_code == 0
    assert json.loads(reach.stdout)["seconds"] == pytest.approx(0.2)
    assert re.fullmatch(r"tool0 is .* from its target", *json.loads(reach.stdout)["misses"])
    assert page.stat().st_size > 1000
    assert plot.stat().st_size > 1000
    trot = "replan", "quadruped/trot", "--robot", "solo12", "--duration", "0.1"
    assert "stayed up" in mayne(*trot, "--command", "0:0.1,0,0;0.05:0.2,0,0.1").stdout
    fails_with(mayne(*trot, "--command", "fast"), 2, "--command: expected three numbers")
    fails_with(mayne(*trot, "--speed", "0.2"), 2, "--speed", "no such parameter")
    fails_with(mayne("replan", "arm/reach", "--command", "0.1,0,0"), 2, "--command", "gaits walk by")


def test_a_node_without_ros_says_what_is_missing(tmp_path):
    result = mayne("node", "pendulum/swing-up", "--horizon", "20", "--joints", "pivot", "--ros-args", "-r", "a:=b")
    fails_with(result, 2, "joints[0]", "pivot")
    if importlib.util.find_spec("rclpy") is None:  # else the node runs, see tests/problems/test_ros.py
        result = mayne("node", "pendulum/swing-up", "--horizon", "20", "--ros-args", "-r", "a:=b")
        fails_with(result, 2, "needs rclpy")
        assert "until you press Ctrl-C" not in result.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (("bench", SMALL, "--page", "a.html"), f"--page: `bench {SMALL}` has no use for it"),
    (("bench", "papers", "--json"), "--json: `bench papers` has no use for it"),
    (("simulate", "--seconds", "1"), "--seconds: expected with the NAME of a system"),
    (("play", SMALL, "--problem", SMALL), "--problem: expected with a FILE"),
    (("drive", SMALL, "--friction", "0.3"), "--friction: expected for robots that stand on feet"),
    (("node", SMALL, "--every", "0.1"), "--every: expected together with --replan"),
    (("node", SMALL, "--replan", "--problem", SMALL), "--problem: expected without --replan"),
])  # fmt: skip
def test_options_of_no_use_are_refused(arguments, words):
    fails_with(mayne(*arguments), 2, words)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
@pytest.mark.parametrize("name", ["dynamics", "papers"])
def test_times_of_benchmarks_that_end_at_once_or_never_are_refused(name, seconds, monkeypatch):
    monkeypatch.setattr(dynamics_bench, "rows", lambda seconds: [])
    monkeypatch.setattr(dynamics_bench, "scaling", lambda seconds: [])
    monkeypatch.setattr(papers, "write_papers", lambda *given: None)
    fails_with(mayne("bench", name, "--seconds", seconds), 2, "--seconds: expected")


def test_an_unknown_command_is_refused_where_no_error_can_be_written():
    closed = "import sys; sys.stderr = None; sys.argv = ['mayne', 'nope']; from mayne.__main__ import main; main()"
    assert subprocess.run([sys.executable, "-c", closed]).returncode == 2
