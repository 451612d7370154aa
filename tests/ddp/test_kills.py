"""Processes are killed at any moment: nothing is half written and nothing is left; 100: `make kills`."""

import kills
from fresh import Fresh
from thorough import cases


def test_a_kill_while_compiling_or_saving_leaves_nothing_half(tmp_path):
    fresh = Fresh()
    kills.compile_and_save(fresh, tmp_path, cases(9, 4), seed=1)
    fresh.close()
