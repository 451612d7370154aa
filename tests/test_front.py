"""``import mayne`` and ``python -m mayne``: one place for all that a user names, and quick."""

import dataclasses
import importlib
import inspect
import os
import pickle
import pydoc
import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from commands import on_a_terminal

import ddp
import dynamics
import mayne
import problems
import viz
from ddp.errors import suggesting
from mayne.__main__ import overview
from problems import cli, gaits
from problems.durations import solve_durations

ROOT = Path(__file__).parent.parent
MODULES = {path.stem for path in (ROOT / "mayne").glob("*.py")} - {"__init__", "__main__"}


@pytest.mark.parametrize("package", [ddp, dynamics, problems, viz], ids=lambda package: package.__name__)
def test_every_public_name_is_mayne_s_too(package):
    for name in package.__all__:
        own, given = getattr(package, name), getattr(mayne, name)
        if isinstance(own, types.ModuleType):
            rooms = {key for key, value in vars(own).items() if isinstance(value, types.ModuleType)}
            assert {key for key in vars(own) if not key.startswith("_")} - rooms <= set(vars(given))
        else:
            assert given is own


def test_all_names_are_there_and_no_others():
    assert set(mayne.__all__) >= MODULES
    for name in mayne.__all__:
        assert getattr(mayne, name) is not None
    assert set(mayne.__all__) == {name for name in dir(mayne) if not name.startswith("__")}
    with pytest.raises(AttributeError, match="'solver_of_everything'"):
        _ = mayne.solver_of_everything


def test_star_and_submodules_import():
    names: dict[str, object] = {}
    exec("from mayne import *\nfrom mayne.costs import StateCost\nimport mayne.gaits", names)
    assert names["solve"] is ddp.solve
    assert names["StateCost"] is problems.costs.StateCost
    assert names["gaits"] is mayne.gaits


@pytest.mark.parametrize("arguments", [["-m", "mayne", "--version"], ["-m", "mayne", "--help"], ["-c", "import mayne"]])
def test_mayne_tells_about_itself_at_once(arguments):
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert "mayne" in (done.stdout or imported)
    assert not {"numpy", "numba", "ddp", "rich"} & set(imported)
    assert len(imported) < 300  # 172 in 0.15 s, where what the commands need is 1500 in 3


def test_commands_import_nothing_heavy_that_few_of_them_need():
    heavy = {"coal", "pinocchio", "scipy.optimize", "scipy.sparse"}
    code = f"import sys, problems.cli; print({heavy} & {{*sys.modules}} or 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "none\n"  # they take half a second of three


def test_the_quick_help_is_the_whole_command_s():
    runner = CliRunner()
    quick, whole = (runner.invoke(command, ["--help"], prog_name="mayne") for command in (overview(), cli.main))
    assert quick.stdout == whole.stdout


def test_loading_is_told_on_a_terminal_and_leaves_nothing():
    code = "import mayne; mayne.solve; print('ready')"
    text = on_a_terminal([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "MAYNE_QUIET": ""})
    assert text.startswith("loading mayne...\r   ")
    assert text.endswith("\rready\r\n")


def test_the_command_tells_a_terminal_at_once_that_it_loads():
    command = [sys.executable, "-m", "mayne", "list", "nothing"]
    text = on_a_terminal(command, 2, cwd=ROOT, env={**os.environ, "MAYNE_QUIET": ""})
    assert text.startswith("loading mayne...\r   ")
    assert "`mayne list` has none called 'nothing'" in text


@pytest.mark.parametrize(("given", "words"), [
    ("slove", "no such command: 'slove'; did you mean 'solve'?"),
    ("arm/reach", "'arm/reach'; `mayne solve arm/reach` solves a problem, `mayne list` tells all"),
    ("folder/arm.urdf", "no such command: 'folder/arm.urdf'; known are"),
])  # fmt: skip
def test_a_misspelt_command_is_refused_at_once(given, words):
    code = f"import sys; sys.argv[1:] = [{given!r}]; from mayne.__main__ import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert words in done.stderr
    assert "numpy" not in done.stderr


@pytest.mark.parametrize("module", ["click", "numpy._core.multiarray", "problems.cli"])
def test_a_command_that_is_interrupted_while_it_is_loaded_says_so_in_one_word(module):
    code = f"""if True:
        import os, signal, sys
        class Interrupting:
            def find_spec(self, name, path, target=None):
                if name == {module!r}:
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupting())
        sys.argv[1:] = ["list"]
        from mayne.__main__ import main
        main()"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


HIDING = [
    ("dynamics.py", "import mayne"),
    ("dynamics.py", "from ddp import solve"),
    ("dynamics.py", "from problems import arm"),
    ("problems/__init__.py", "import mayne"),
    ("problems/__init__.py", "from ddp import solve"),
    ("viz/__init__.py", "import mayne.arm"),
    ("viz/__init__.py", "import dynamics"),
    ("ddp.py", "import mayne"),
]


@pytest.mark.parametrize(("file", "statement"), HIDING)
def test_a_file_that_hides_a_package_is_named(tmp_path, file, statement):
    hiding = tmp_path / file
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("")
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{statement}\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    name = file.split("/")[0]
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: mayne: {name.removesuffix('.py')!r} is imported from {tmp_path / name}, ")
    assert last.endswith("hides mayne's own package; rename it")


def test_the_command_names_what_hides_a_package(tmp_path):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "__init__.py").write_text("")
    code = f"import sys; sys.path.append({str(ROOT)!r}); from mayne.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert f"{tmp_path / 'problems'}, which hides" in done.stderr


def test_the_page_of_the_api_has_every_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    told = re.findall(r"(?:auto(?:class|function|data):: |`)mayne\.(\w+)", page)
    assert set(mayne.__all__) <= set(told)


def test_gaits_say_that_they_return_problems():
    for name in ("walk", "trot", "pace", "bound", "jump", "stand", "step"):
        assert typing.get_type_hints(getattr(gaits, name))["return"] is ddp.Problem


def test_a_name_that_is_elsewhere_is_found():
    with pytest.raises(AttributeError, match=r"'friction_cone'; there is mayne\.costs\.friction_cone"):
        mayne.friction_cone  # noqa: B018
    assert "ACCURACY" not in dir(mayne.strides)


@pytest.mark.parametrize(("given", "own"), [("solve_batch", "solve_many"), ("rnea", "inverse_dynamics"), ("MPC", "R")])
def test_a_name_of_other_programs_is_told_as_what_mayne_calls_it(capsys, given, own):
    with pytest.raises(AttributeError, match=rf"'{given}'; mayne\.{own}\w* is what is often called so") as raised:
        getattr(mayne, given)
    sys.__excepthook__(AttributeError, raised.value, None)
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("given", ["rollout", "ekf"])
def test_names_of_what_mayne_has_not_lead_nowhere_else(given):
    """A rollout follows from controls alone, without MuJoCo; an extended filter linearises where it thinks it is."""
    with pytest.raises(AttributeError, match=f"'{given}'$"):
        getattr(mayne, given)


def test_words_of_other_programs_are_none_of_mayne_and_lead_to_names_of_it():
    words = [word for others in mayne._MEANT.values() for word in others]
    assert len(words) == len(set(words))
    assert not set(words) & set(mayne.__all__)
    assert not [word for word in words if mayne._elsewhere(word)]
    assert set(mayne._MEANT) <= set(mayne.__all__)


def test_a_module_imported_by_its_own_name_lists_its_own_names_alone(monkeypatch):
    monkeypatch.setattr(mayne, "strides", mayne.strides)
    monkeypatch.delitem(sys.modules, "mayne.strides")
    listed = dir(importlib.import_module("mayne.strides"))
    assert "lay_out" in listed
    assert "ACCURACY" not in listed


def test_help_of_a_module_tells_its_names_in_a_line_each():
    shown = pydoc.plain(pydoc.render_doc(mayne.strides))
    assert "Strides: footholds and swings from a schedule" in shown
    for name in dir(mayne.strides):
        assert f"\n    {name}: {getattr(mayne.strides, name).__doc__.splitlines()[0]}\n" in shown


def test_modules_list_what_makes_problems_and_name_it_where_a_name_is_unknown():
    listed = dir(mayne.gaits)
    assert {"bound", "jump", "pace", "stand", "step", "trot", "walk", "Schedule"} <= set(listed)
    assert not {"np", "ArrayLike", "ProblemError", "suggesting", "Gait"} & set(listed)
    assert dir(mayne.arm) == ["lock", "obstacles", "out_of_reach", "reach", "throw"]
    assert {"FramePose", "ForceLimits", "GravityTorqueCost"} <= set(dir(mayne.costs))
    assert {"AtPose", "Robot", "state_layout"}.isdisjoint(dir(mayne.costs))
    with pytest.raises(AttributeError, match=r"'mayne\.gaits' has no attribute 'gallop'; known are .*'bound'"):
        mayne.gaits.gallop  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'trot'"):
        mayne.gaits.trott  # noqa: B018


@pytest.mark.parametrize(("module", "given", "meant"), [(mayne, "Solve", "solve"), (mayne.gaits, "trott", "trot")])
def test_names_that_python_shows_as_unknown_are_suggested_once(capsys, module, given, meant):
    with pytest.raises(AttributeError) as raised:
        getattr(module, given)
    sys.__excepthook__(AttributeError, raised.value, None)
    assert re.findall(r"[Dd]id you mean:? '(\w+)'\?", capsys.readouterr().err) == [meant]


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        (mayne.DDP, "max_iteration", "max_iterations"), (mayne.ILQR, "tolerence", "tolerance"),
        (mayne.Problem, "termnal", "terminal"), (mayne.RobotDynamics, "integrater", "integrator"),
        (mayne.costs.FramePosition, "wieght", "weight"), (mayne.gaits.trot, "sped", "speed"),
        (mayne.constraints.FramePositionLimits, "uper", "upper"), (mayne.constraints.JointLimits, "loewr", "lower"),
        (mayne.obstacles.CapsuleClearance, "raduis", "radius"), (mayne.constraints.SelfClearance, "margn", "margin"),
        (mayne.gaits.jump, "lenght", "length"), (mayne.solve, "thro", "throw"), (mayne.save_html, "tittle", "title"),
        (mayne.constraints.JointLimits, "uper", "upper"), (mayne.pendulum.swing_up, "horizn", "horizon"),
        (mayne.augment.delays, "step", "steps"), (mayne.Rod, "lenght", "length"), (mayne.lifted, "s", "s0"),
        (mayne.check_derivatives, "problm", "problem"), (mayne.Signal, "valus", "values"),
    ],
)  # fmt: skip
def test_a_misspelt_keyword_is_told_its_nearest(call, given, meant):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{given}'.*[Dd]id you mean '{meant}'"):
        call(**{given: 1})
    assert meant in inspect.signature(call).parameters
    assert pickle.loads(pickle.dumps(call)) is call


@pytest.mark.parametrize(
    ("call", "given", "where"),
    [
        (mayne.solve, "tolerance", "solver=DDP(tolerance=...)"),
        (mayne.solve, "max_iter", "solver=DDP(max_iterations=...)"),
        (mayne.solve, "x0", "problem=Problem(x0=...)"),
        (solve_durations, "price", "free=FreeDurations(price=...)"),
        (solve_durations, "tolerance", "free=FreeDurations(tolerance=...) or solver=DDP(tolerance=...)"),
        (mayne.ContinuousDynamics, "control_limits", "Problem(control_limits=...)"),
    ],
)
def test_an_option_of_an_arguments_class_is_told_where_it_belongs(call, given, where):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{given}'.*; expected {re.escape(where)}$"):
        call(None, **{given: 1.0})


@pytest.mark.parametrize("annotation", ["mayne.DDP | None", "typing.Optional[mayne.DDP]", "'mayne.DDP'"])
@pytest.mark.parametrize(("other", "told"), [("int", "expected solver=DDP(hessian=...)"), ("1 / 0", "known are"),
                                             ("mayne.no_such_name", "known are"), ("Nowhere", "known are")])
def test_annotations_of_any_kind_leave_errors_of_keywords_as_they_are(annotation, other, told):
    """An annotation is whatever a user writes: what cannot be read says nothing of other classes."""

    def call(solver=None, more=None):
        """A function whose annotations are texts, as under ``from __future__ import annotations``."""

    call.__annotations__ = {"solver": annotation, "more": other}
    with pytest.raises(TypeError, match=rf"unexpected keyword argument 'hessian'; {re.escape(told)}"):
        suggesting(call)(hessian="exact")


@dataclasses.dataclass(frozen=True)
class Patient(mayne.DDP):
    """A solver of a user's own, with an option more."""

    hours: float = 1.0


def test_classes_that_inherit_suggest_keywords_of_both():
    for wrong, meant in (("tolerence", "tolerance"), ("hour", "hours")):
        with pytest.raises(TypeError, match=rf"Patient.*unexpected keyword argument '{wrong}'.*id you mean '{meant}'"):
            Patient(**{wrong: 1.0})
    own = Patient(tolerance=1e-3, hours=2.0)
    assert (own.tolerance, own.hours) == (1e-3, 2.0)
    assert pickle.loads(pickle.dumps(own)) == own
    assert [*inspect.signature(Patient).parameters][-1] == "hours"
    assert "hours" not in inspect.signature(mayne.DDP).parameters


def test_what_is_missing_is_told_with_all_that_is_needed():
    wanted = r"missing 2 required .*'running' and 'terminal'; expected Problem\(dynamics, running, terminal, x0"
    with pytest.raises(TypeError, match=wanted):
        mayne.Problem(dynamics=1, x0=[0.0], horizon=3)


def test_other_errors_of_types_stay_as_they_are():
    with pytest.raises(TypeError, match=r"^DDP.__init__\(\) got multiple values for argument 'tolerance'$"):
        mayne.DDP(1e-9, tolerance=1e-9)

    def effort(x, u):
        return np.sum(a=u, speling=1)

    with pytest.raises(ddp.ProblemError, match="unexpected keyword argument 'speling'"):
        mayne.Problem(mayne.FunctionDynamics(lambda x, u: x + u, 1, 1), [effort], [], [0.0], 3)
