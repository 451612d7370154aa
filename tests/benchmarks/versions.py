"""Run a sample of the tests with other versions of numba: `make versions`.

Each version is installed into a folder of its own, with the llvmlite and numpy that it asks for, which stand before
the environment's. The exit status is 1 where a test fails with any of them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MINORS = ("0.63.1", "0.64.0", "0.65.1", "0.66.0", "0.67.0", "0.68.1")
"""The newest of each minor version that pyproject.toml allows."""

SOLVED = "tests/test_convergence.py::test_ddp_converges_within_the_bar[{}]"
SOLVES = SOLVED.format("pendulum/swing-up"), SOLVED.format("biped/step")
FILES = ("kernel_calls", "first_calls", "compiled", "forks")
SAMPLE = (*(f"tests/ddp/test_{name}.py" for name in FILES), *SOLVES)


def installed(version: str, folder: Path) -> Path:
    """The folder of a version of numba; installed if it is not there."""
    place = folder / version
    if not place.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", str(place)]
        subprocess.run([*command, f"numba=={version}"], check=True)
    return place


def passes(version: str, folder: Path, tests: list[str]) -> bool:
    """Whether tests pass with a version of numba."""
    paths = os.pathsep.join([str(installed(version, folder)), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths}
    asked = [sys.executable, "-c", "import numba, numpy; print(numba.__version__, 'with numpy', numpy.__version__)"]
    found = subprocess.check_output(asked, env=environment, text=True).strip()
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *tests], env=environment, cwd=ROOT)
    print(f"numba {found}: {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)
    return found.startswith(version) and done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", nargs="+", default=MINORS, help="versions of numba (default: every minor)")
    parser.add_argument("--tests", nargs="+", default=list(SAMPLE), help="files or names of tests")
    parser.add_argument("--keep", type=Path, help="folder for the versions, kept for later runs")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if chosen.keep is None else chosen.keep.resolve()
        results = [passes(version, folder, chosen.tests) for version in chosen.versions]
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
