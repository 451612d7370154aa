"""Count what there is: lines and kernels of each package, and what first solves compile from nothing: `make size`.

Kernels are functions that numba compiles; an inline one becomes part of its callers and has no machine code of its own.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ddp", "dynamics", "problems", "viz", "mayne")
KERNEL = re.compile(r"(kernel|of_rods|portable|apart|for_constants)\b")
INLINE = re.compile(r"inline\b")

FIRST = """
import sys, time
import ddp, problems
from ddp.compiling import kernel

try:
    entry = problems.find(sys.argv[1])
except ddp.ProblemError as reason:
    sys.exit(str(reason))
told, start = [], time.process_time()  # the import's is a second more
with kernel.compilations(told.append):
    ddp.solve(entry())
spent = time.process_time() - start
print(f"{sys.argv[1]}: {len(told)} kernels for {len(set(told))} functions in {spent:.1f} s of CPU")
"""


def decorated(function: ast.FunctionDef, pattern: re.Pattern[str]) -> bool:
    return any(pattern.match(ast.unparse(one)) for one in function.decorator_list)


def main() -> None:
    print(f"{'package':10} {'files':>6} {'lines':>7} {'kernels':>8} {'inline':>7}  longest file")
    for package in PACKAGES:
        texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / package).rglob("*.py")}
        functions = [one for text in texts.values() for one in ast.walk(ast.parse(text))]
        functions = [one for one in functions if isinstance(one, ast.FunctionDef)]
        lines = {path: text.count("\n") for path, text in texts.items()}
        longest = max(lines, key=lines.__getitem__)
        kernels, inline = (sum(decorated(one, kind) for one in functions) for kind in (KERNEL, INLINE))
        where = f"{longest.relative_to(ROOT)}, {lines[longest]}"
        print(f"{package:10} {len(texts):6} {sum(lines.values()):7} {kernels:8} {inline:7}  {where}")
    for name in sys.argv[1:] or ["pendulum/swing-up", "quadruped/trot"]:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "MAYNE_CACHE_DIR": folder, "MAYNE_QUIET": "1"}
            run = subprocess.run([sys.executable, "-W", "ignore", "-c", FIRST, name], cwd=ROOT, env=environment)
        if run.returncode:
            sys.exit(run.returncode)


if __name__ == "__main__":
    main()
