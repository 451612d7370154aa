"""Fresh processes for tests of the cache: forked from one that has imported numba, so that each takes little time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SERVER = f"""
import json, logging, os, signal, sys, types, warnings
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
sys.dont_write_bytecode = True
sys.modules["ddp"] = types.ModuleType("ddp")  # without all that it imports
sys.modules["ddp"].__path__ = [{str(ROOT / "ddp")!r}]
import numpy as np
from numba.core.registry import cpu_target
from ddp.compiling import content, kernel, library, store
library.SMALL = 0
for context in (cpu_target.typing_context, cpu_target.target_context):
    context.refresh()  # what numba knows of its functions, before its first compile: most of what that takes
wishes, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
for wish in wishes:
    wish = json.loads(wish)
    child = os.fork()
    if child == 0:
        os.environ.update(wish["env"])
        with open(wish["output"], "w", buffering=1) as out:
            os.dup2(out.fileno(), 1), os.dup2(out.fileno(), 2)
        sys.path.insert(0, wish["folder"])
        names, code = [], 1
        logging.basicConfig(level=wish["level"], format="%(levelname)s %(message)s")
        try:
            with kernel.compilations(names.append):
                main = types.ModuleType("__main__")
                sys.modules["__main__"] = main
                main.np = np
                exec(compile(wish["program"], "<program>", "exec"), vars(main))
            print(json.dumps(names))
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    if wish["wait"]:
        print(os.waitpid(child, 0)[1], file=answers, flush=True)
    else:
        print(child, file=answers, flush=True)
"""


class Fresh:
    """Runs programs in processes of their own."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
        )  # fmt: skip
        self._count = 0

    def close(self) -> None:
        """End it."""
        self._server.communicate()

    def begin(
        self, folder: Path, program: str, cache: Path | None = None, wait: bool = False, level: str = "ERROR"
    ) -> Any:
        """Start a program among the modules of a folder: (its process or its exit status, the file of its output)."""
        self._count += 1
        output = folder / f"output-{self._count}"
        output.touch()  # whoever asks for it may be quicker than its process
        wish = {
            "folder": str(folder), "program": program, "output": str(output), "wait": wait, "level": level,
            "env": {"MAYNE_CACHE_DIR": str(cache or folder / "cache")},
        }  # fmt: skip
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(wish) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline()), output

    def run(
        self, folder: Path, program: str, cache: Path | None = None, level: str = "ERROR"
    ) -> tuple[list[str], list[str]]:
        """Lines that a program prints, and the kernels that it had to compile."""
        status, output = self.begin(folder, program, cache, True, level)
        said = output.read_text()
        output.unlink()
        assert status == 0, said
        *lines, names = said.splitlines()
        return lines, json.loads(names)
