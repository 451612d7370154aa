"""The command line's files: solutions that are saved, viewed again and played, and files that are refused."""

import json
import re

import numpy as np
import pytest
from commands import SMALL, fails_with, mayne

import ddp
from problems import ALL, cli
from problems.command import papers

UNFINISHED = "not converged after 1 iterations, the limit of 1 iterations was reached"


def test_a_saved_solution_can_be_viewed_again(tmp_path):
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


@pytest.mark.parametrize("name", [SMALL, "integrator/reach"])
def test_the_time_of_a_motion_without_phases_is_found_and_kept_with_it(name, tmp_path):
    saved = tmp_path / "quick.npz"
    timing, plot = ("--durations", "0.5,2", "--price-of-time", 1), tmp_path / "quick.svg"
    found = json.loads(mayne("solve", name, *timing, "--save", saved, "--plot", plot, "--json").stdout)
    usual = ALL[name]()
    (T,) = found["durations"]
    assert found["converged"]
    assert 0.5 <= T / (usual.horizon * usual.dynamics.dt) <= 2.0
    assert abs(T / (usual.horizon * usual.dynamics.dt) - 1.0) > 0.01
    solution = ddp.Solution.load(saved, ALL[name].build(dt=T / usual.horizon))
    assert solution.cost + T == pytest.approx(found["cost"], rel=1e-6)
    by = "solves" if name == SMALL else "iterations"  # which the plot is by
    assert re.search(rf"<!-- .* {by}\) -->", plot.read_text())


def test_a_saved_solution_finds_the_file_of_its_robot_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "arm.xml").write_text("""<mujoco><worldbody><body><joint axis="0 1 0"/><geom size=".1" pos="0 0 .3"/>
        <body pos="0 0 .5"><joint axis="0 1 0"/><geom size=".1" pos="0 0 .3"/></body></body></worldbody></mujoco>""")
    monkeypatch.chdir(tmp_path)
    saving = mayne("solve", "arm/reach", "--robot", "arm.xml", "--horizon", 5, "--save", "reach.npz")
    assert saving.exit_code == 0, saving.output
    monkeypatch.chdir("/")
    result = mayne("view", tmp_path / "reach.npz", "--html", tmp_path / "reach.html")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("option", ["--save", "--checkpoint", "--html", "--plot"])
def test_files_in_a_folder_that_has_been_removed_are_refused(tmp_path, monkeypatch, option):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    name = {"--html": "swing.html", "--plot": "swing.png"}.get(option, "swing.npz")
    fails_with(mayne("solve", SMALL, option, name), 2, f"{option}: cannot write '{name}': No such file or directory")


def test_the_page_of_another_robot_shows_the_path_of_its_tool(tmp_path):
    page = tmp_path / "reach.html"
    result = mayne("solve", "arm/reach", "--robot", "xarm7", "--horizon", 20, "--html", page)
    assert result.exit_code == 0, result.output
    text = page.read_text().replace("</i>", ">")
    assert ">target of link_eef<" in text
    assert ">path of link_eef<" in text


def test_a_solution_saved_by_a_program_needs_the_name_of_its_problem(tmp_path):
    saved, page = tmp_path / "swing.npz", tmp_path / "swing.html"
    problem = ALL[SMALL]()
    ddp.solve(problem, ddp.DDP()).save(saved)
    fails_with(mayne("view", saved, "--html", page), 2, "--problem")
    assert mayne("view", saved, "--html", page, "--problem", SMALL).exit_code == 0
    fails_with(mayne("view", saved, "--html", page, "--problem", "cartpole/swing-up"), 2, "another problem")


def test_solutions_are_saved_with_their_problem_in_one_step(tmp_path):
    result = mayne("solve", SMALL, "--save", tmp_path / "swing.npz")
    assert result.exit_code == 0
    assert f"wrote {tmp_path / 'swing.npz'}" in result.stderr
    kept = (tmp_path / "swing.npz").read_bytes()
    assert ddp.Solution.load(tmp_path / "swing.npz").converged
    assert mayne("view", tmp_path / "swing.npz", "--html", tmp_path / "swing.html").exit_code == 0
    assert (tmp_path / "swing.npz").read_bytes() == kept
    assert {path.name for path in tmp_path.iterdir()} <= {"swing.npz", "swing.html"}


def test_a_file_that_is_no_solution_is_refused(tmp_path):
    other, damaged = tmp_path / "other.npz", tmp_path / "damaged.npz"
    np.savez(other, X=np.zeros(3))
    damaged.write_bytes(b"PK\x03\x04 not a zip")
    fails_with(mayne("view", other, "--problem", SMALL), 2, "not a solution")
    fails_with(mayne("view", damaged), 2, "not a solution")


@pytest.mark.parametrize(("option", "suffix"), [("--save", ".npz"), ("--html", ".html"), ("--plot", ".png")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_solved(tmp_path, monkeypatch, option, suffix):
    def solving(*arguments, **options):
        raise AssertionError("it was solved")

    monkeypatch.setattr(cli, "solve_problem", solving)
    fails_with(mayne("solve", SMALL, option, tmp_path / "none" / f"x{suffix}"), 2, option, "existing folder")
    fails_with(mayne("solve", SMALL, "--plot", tmp_path / "x.txt"), 2, "--plot: expected .png, .pdf or .svg")
    fails_with(mayne("solve", SMALL, "--html", tmp_path / "x.txt"), 2, "--html: expected .html or .htm")
    fails_with(mayne("solve", SMALL, "--save", tmp_path / "x.json"), 2, "--save: expected a name that ends with .npz")
    fails_with(mayne("solve", SMALL, "--iterations"), 2, "--iterations: expected together with --html")
    twice = "--save", tmp_path / "x.npz", "--checkpoint", f"{tmp_path}/./x.npz"
    fails_with(mayne("solve", SMALL, *twice), 2, "--checkpoint: expected another file than that of --save")
    fails_with(mayne("solve", "car/parking", "--html", tmp_path / "x.html"), 2, "expected the motion of a robot")
    fails_with(mayne("solve", SMALL, "--forces", tmp_path / "x.png"), 2, "expected a problem with contacts")


def test_folders_are_refused_as_solutions_and_pages_where_no_file_can_be_before_anything_is_solved(tmp_path):
    fails_with(mayne("view", tmp_path), 2, "file: expected a solution's file", "Solutions.open(path, problem)[i].save(")
    fails_with(mayne("solve", SMALL, "--html", "/proc/page.html"), 2, "--html: cannot write into '/proc'")


def test_the_motion_of_a_robot_is_viewed_without_a_problem(tmp_path):
    saved, page = tmp_path / "own.npz", tmp_path / "own.html"
    solution = ddp.solve(ALL["arm/reach"].build(horizon=20), ddp.DDP(max_iterations=1), throw=False)
    solution.save(saved)
    result = mayne("view", saved, "--robot", "ur5", "--dt", 0.02, "--html", page)
    assert result.exit_code == 0
    assert f"{saved}: {UNFINISHED}" in result.stderr
    assert page.stat().st_size > 10_000
    fails_with(mayne("view", saved, "--html", page), 2, "--problem", "--robot and --dt", "mayne.save_html")
    fails_with(mayne("view", saved, "--robot", "panda", "--dt", 0.02, "--html", page), 2, "--robot: expected", "12")
    fails_with(mayne("view", saved, "--robot", "ur5"), 2, "give --dt with --robot, or --problem")
    fails_with(mayne("view", tmp_path / "none.npz"), 2, "Error: Invalid value for 'FILE'", without="Usage")
    fails_with(mayne("view", saved, "--robot", "ur5", "--dt", -1, "--html", page), 2, "--dt")
    fails_with(mayne("view", saved, "--problem", "arm/reach", "--dt", 1, "--html", page), 2, "--dt")


def test_motions_of_solves_that_did_not_converge_are_told(tmp_path):
    saved, page = tmp_path / "swing.npz", tmp_path / "swing.html"
    assert mayne("solve", SMALL, "--horizon", 20, "--max-iterations", 1, "--save", saved).exit_code == 1
    for result in (mayne("view", saved, "--html", page), mayne("play", saved, "--rate", 500)):
        assert f"{saved}: {UNFINISHED}" in result.stderr


def test_a_motion_is_played_in_mujoco_beside_a_joint_pd(tmp_path):
    page, plot, gains = (tmp_path / name for name in ("trot.html", "errors.png", "gains.csv"))
    files = "--html", page, "--plot", plot, "--export", gains
    disturbed = "--push", "0.05", "--uneven=-0.02,0", "--by-contact"
    result = mayne("play", "quadruped/trot", "--robot", "solo12", *disturbed, *files)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[-2] for row in rows[:3]] == ["stayed", "stayed", "stayed"]
    assert float(rows[0][-5]) < float(rows[1][-5]) < float(rows[2][-5]) < 10.0
    assert all(path.stat().st_size > 1000 for path in (page, plot, gains))
    assert "the plan" in page.read_text()


def test_a_saved_motion_is_played_with_the_conditions_it_is_given(tmp_path):
    saved = tmp_path / "swing.npz"
    assert mayne("solve", SMALL, "--horizon", 20, "--save", saved).exit_code == 0
    told = json.loads(mayne("play", saved, "--delay", 0.002, "--known-delay", "--rate", 500, "--json").stdout)
    assert told["problem"] == SMALL
    assert told["conditions"]["rate"] == 500.0
    assert set(told["runs"]) == {"policy", "joint PD", "torques alone"}
    fails_with(mayne("play", saved, "--push", "far"), 2, "--push: expected a number")
    fails_with(mayne("play", saved, "--uneven", "hilly"), 2, "--uneven: expected a number, or some with commas")
    fails_with(mayne("play", SMALL, "--by-contact"), 2, "by_contact: expected a motion of a robot with legs")
    fails_with(mayne("play", SMALL, "--push", "0.3,0"), 2, "push: expected one velocity, of its joint [rad/s, m/s], as")
    fails_with(mayne("play", "pendulum/swing"), 2, "pendulum/swing-up")
    fails_with(mayne("play", SMALL, "--delay", "long"), 2, "Error: Invalid value for '--delay'", without="Usage")
    fails_with(mayne("play", tmp_path / "none.npz"), 2, "none.npz", "no such file")
    fails_with(mayne("solve", saved), 2, "a saved solution, which `mayne view` shows")
    fails_with(mayne("solve", "arm.urdf"), 2, "mayne solve arm/reach --robot arm.urdf")


def test_a_motion_saved_by_a_program_is_played_by_its_robot(tmp_path):
    saved = tmp_path / "own.npz"
    solution = ddp.solve(ALL["arm/reach"].build(horizon=20))
    solution.save(saved)
    result = mayne("play", saved, "--robot", "ur5", "--dt", 0.01, "--json")
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    again = mayne("play", saved, "--problem", "arm/reach", "--horizon", 20, "--json")
    assert runs["policy"]["rms"] == json.loads(again.stdout)["runs"]["policy"]["rms"]
    fails_with(mayne("play", saved), 2, "--problem, or --robot and --dt", "mayne.simulate(solution)")
    fails_with(mayne("play", saved, "--robot", "ur5"), 2, "give --dt with --robot, or --problem")
    fails_with(mayne("play", saved, "--robot", "ur5", "--dt", 0.02), 2, "do not follow from its controls")
    fails_with(mayne("play", saved, "--robot", "panda", "--dt", 0.01), 2, "--robot: expected", "12 numbers", "18")


def test_the_papers_page_has_every_section_and_its_command(tmp_path, monkeypatch):
    """Measurements of the page are the benchmarks' own; sections that take long are left out here."""
    kept = [name for name in papers.SECTIONS if name.startswith(("Linearisation", "Derivatives of contacts"))]
    monkeypatch.setattr(papers, "SECTIONS", {name: papers.SECTIONS[name] for name in kept})
    told = []
    papers.write_papers(tmp_path / "papers.html", 0.01, 1, told.append)
    text = (tmp_path / "papers.html").read_text(encoding="utf-8")
    assert told == kept
    assert all(f"<h2>{name}</h2>" in text for name in kept)
    assert "mayne bench papers --page papers.html --seconds 0.01 --repeat 1" in text
    cells = re.findall(r"<td>([0-9.]+e-[0-9]+)</td>", text)
    assert len(cells) == 7  # six errors of Jacobians and the least of the sweep
    assert max(map(float, cells)) < 1e-9


@pytest.mark.parametrize("there", [False, *[True] * bool(papers.util.find_spec("casadi"))])
def test_the_papers_page_has_casadi_beside_ours_or_says_that_it_is_absent(tmp_path, monkeypatch, there):
    """CasADi's automatic differentiation of another recursion is an oracle where it is installed."""
    growth = {name: make for name, make in papers.SECTIONS.items() if name.startswith("Second-order")}
    monkeypatch.setattr(papers, "SECTIONS", growth)
    monkeypatch.setattr(papers, "BODIES", (1, 3))
    monkeypatch.setattr(papers, "BRANCHING", (1, 2))
    monkeypatch.setattr(papers.util, "find_spec", lambda name: there or None)
    papers.write_papers(tmp_path / "papers.html", 0.001, 1, lambda title: None)
    text = (tmp_path / "papers.html").read_text(encoding="utf-8")
    assert ("CasADi is not installed here" in text) == (not there)
    differences = [float(cell) for cell in re.findall(r"<td>([0-9.]+e-[0-9]+)</td>", text)]
    assert len(differences) == (2 if there else 0)
    assert all(difference < 1e-13 for difference in differences)
