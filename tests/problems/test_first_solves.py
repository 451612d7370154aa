"""Kernels that first solves compile: in these the compiler takes most of the time."""

import subprocess
import sys

import pytest
from numba import types

import ddp
import problems
from ddp.costs.hessians import scales
from ddp.sweeps.sized_sweep import sweep_of
from dynamics.steps.schemes import SEMI_IMPLICIT

LARGEST = 8000
"""Instructions of rollouts of robots without contacts, which are compiled with all that they call; they have 5800."""


@pytest.fixture(scope="module", autouse=True)
def swing_up():
    """A pendulum's solve, whose iterations run in compiled code and in Python."""
    return ddp.solve(problems.find("pendulum/swing-up").build())


def test_what_judgements_are_relative_to_is_compiled_for_one_type_of_flags():
    """Compiled iterations hand over integers, so those in Python do."""
    assert {args[1].dtype for args in scales.overloads} == {types.int64}


def test_rollouts_have_one_call_of_forward_dynamics_for_all_methods():
    sizes = [one.library.code.size for one in SEMI_IMPLICIT.roller.track.overloads.values()]
    assert 0 < max(sizes) < LARGEST


COMPILED = """
import ddp, problems
from ddp.compiling.kernel import registered
ddp.solve(problems.find("pendulum/swing-up").build())
print(*{f"{kernel.py_func.__module__}.{kernel.py_func.__name__}" for kernel in registered() if kernel.overloads})
"""


@pytest.fixture(scope="module")
def compiled():
    """Names of the kernels that a new process compiles or loads for a pendulum's solve."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_problem_without_rows_compiles_no_kernel_of_rows(compiled):
    assert "ddp.interior.passes.judge" in compiled
    assert not [name for name in compiled if ".passes_of_rows." in name or ".row_steps." in name]


def called(kernel, found):
    """Names of a kernel's functions that are compiled with it: those that it names, and so on."""
    function = getattr(kernel, "py_func", None)
    if function is not None and function.__qualname__ not in found:
        found.add(function.__qualname__)
        for name in function.__code__.co_names:
            called(function.__globals__.get(name), found)
    return found


def test_sweeps_are_compiled_without_halves_and_panels_that_they_never_call():
    few, many = called(sweep_of(2, 1, False, 0), set()), called(sweep_of(6, 2, True, 0), set())
    assert {"halve", "add_straight", "eliminate", "_raise"} <= many - few
    assert {"no_halves", "none_straight", "eliminate_one", "_eliminate_panel", "raise_one"} <= few
