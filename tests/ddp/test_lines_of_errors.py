"""Errors of users' own code name its line, in whatever folder it is, and no line of a library."""

import importlib.util

import numpy as np
import pytest

import ddp
from dynamics.steps.function_dynamics import FunctionDynamics

CODE = """import json

def lost(x, u):
    raise RuntimeError("lost")

def unread(x, u):
    return json.loads("no json")
"""


@pytest.mark.parametrize("folder", ["problems", "dynamics", "viz/ddp"])
@pytest.mark.parametrize(("name", "line"), [("lost", 4), ("unread", 7)])
def test_errors_name_the_users_line_whatever_their_folders_are_called(tmp_path, folder, name, line):
    file = tmp_path / folder / "car.py"
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location("car", file)
    spec.loader.exec_module(car := importlib.util.module_from_spec(spec))
    system = FunctionDynamics(lambda x, u: x + u, 1, 1, 0.1)
    with pytest.raises(ddp.ProblemError, match=rf"\(line {line} of car.py\)"):
        ddp.solve(ddp.Problem(system, [getattr(car, name)], [], np.zeros(1), 3))
