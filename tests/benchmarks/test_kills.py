"""100 kills, by SIGKILL, SIGTERM and SIGINT in turn: `make abuse-kills`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "ddp"))

import kills
from fresh import Fresh


def test_kills_while_compiling_and_saving(tmp_path, benchmark):
    fresh = Fresh()
    benchmark.pedantic(kills.compile_and_save, (fresh, tmp_path, 70, 2), rounds=1)
    fresh.close()


def test_kills_while_solving_with_threads_and_processes(tmp_path, benchmark):
    benchmark.pedantic(kills.solve_in_parallel, (tmp_path, 30, 3), rounds=1)
