"""Crocoddyl in a process and an environment of its own, asked in JSON lines (`serve_crocoddyl`)."""

import json
import os
import subprocess
from pathlib import Path

SERVER = Path(__file__).with_name("serve_crocoddyl.py")
ONE_THREAD = {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The limit matters: Crocoddyl asks OpenMP for two threads, whatever their number is set to, and where there is but
one free core, they wait for each other for a hundred times as long as they work."""


class Crocoddyl:
    """One process that stays: ``ask`` waits for the answer, ``begin`` and ``finish`` do other work meanwhile."""

    def __init__(self, python, server=SERVER):
        self._process = subprocess.Popen(
            [python, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | ONE_THREAD,
        )  # fmt: skip
        self.versions = self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def ask(self, problem, do="solve", **request):
        self.begin(problem, do, **request)
        return self.finish()

    def begin(self, problem, do="solve", **request):
        self._process.stdin.write(json.dumps({"problem": problem, "do": do, **request}) + "\n")
        self._process.stdin.flush()

    def finish(self):
        answer = self._answer()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended:\n{self._process.stderr.read()}")
        return json.loads(line)
