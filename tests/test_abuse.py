"""Hostile input comes to a result, or to a sentence that names the argument; Ctrl-C is a KeyboardInterrupt."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from abuse import of_ddp, of_dynamics, of_viz

import ddp
import dynamics
import viz

HERE = Path(__file__).parent

MADE_BY_OTHERS = {
    "BatchTerm", "Constraint", "ContactForces", "Contraction", "DDPError", "DerivativeCheck", "DerivativeReport",
    "Drawn", "Dynamics", "Edge", "Ending", "Expansion", "Failure", "ForwardDerivatives", "ForwardHessian",
    "AdaptivePolicy", "ContactPolicy", "ForwardTensors", "Iterations", "Watcher",
    "InverseDerivatives", "InverseHessian", "InverseTensors", "LinearSystem", "ModelError", "ProblemError", "Record",
    "Residual", "Robot", "Sensor", "Solution", "SolveError", "Status", "Term", "animate", "inline", "kernel",
    "S1", "SE2", "SE3", "SO3",
    "InternalDerivatives", "Motion", "Optima", "Optimum", "Policy", "PredictivePolicy", "Progress", "RayExecutor",
    "Rest", "Solutions", "TendonDerivatives", "TendonHessian", "Tracking",
}  # fmt: skip
"""Protocols, errors and results, which nobody calls; decorators; a page that is served until the program ends."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a module, which leaves its files to pytest."""
    environment = os.environ | {"TMPDIR": str(tmp_path_factory.mktemp("abuse"))}

    def module(name, *arguments):
        command = [sys.executable, "-m", name, *arguments]
        return subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=500)

    return module


EVERY = {"dynamics": 399, "ddp": 41, "problems": 199, "viz": 121, "command": 61}
"""Of so many inputs one is tried here, all of them by `make abuse`; odd, so that each has its turn at every value."""


@pytest.fixture(scope="module")
def found(run):
    """What became of the inputs of each room; a process imports mayne for all."""
    ended = run("abuse", *(f"{room}:{every}" for room, every in EVERY.items()), "--json")
    assert ended.returncode in (0, 1), ended.stderr
    return {room["room"]: room for room in map(json.loads, ended.stdout.splitlines())}


@pytest.mark.parametrize("room", EVERY)
def test_hostile_input_comes_to_a_result_or_to_a_sentence_that_names_the_argument(found, room):
    assert found[room]["bad"] == []
    assert found[room]["counts"]["refused"] > 10


def test_ctrl_c_is_a_keyboard_interrupt_whatever_is_going_on(run):
    ended = run("abuse.interrupts", "2")
    assert ended.returncode == 0, ended.stderr
    found = {work: ends for line in ended.stdout.splitlines() for work, ends in json.loads(line).items()}
    assert len(found) == 12
    assert found == dict.fromkeys(found, ["KeyboardInterrupt"] * 2)


@pytest.mark.parametrize(("room", "list_of"), [(ddp, of_ddp), (dynamics, of_dynamics), (viz, of_viz)])
def test_every_public_function_is_abused(room, list_of, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    subjects = list_of.subjects()
    tried = {subject.name.partition(".")[2] or subject.name for subject in subjects}
    tried |= {subject.name.partition(".")[0] for subject in subjects}
    assert set(room.__all__) - tried - MADE_BY_OTHERS == set()
