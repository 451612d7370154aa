"""Table of MJCF files: how far each robot's accelerations are from MuJoCo's own, and what its warning names.

Takes files and folders; default: the models in the wheels of mujoco, gymnasium and dm_control.
Outcomes, by the largest relative error of five random states, contacts and limits of joints left out:

- exact: all of MuJoCo's physics within the tolerance
- named: not all, but a warning names what is missing, and the rest is within the tolerance
- refused: a ModelError says why
- wrong: anything else; the exit status is 1 if there is one
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

import mujoco_oracle

WHEELS = ("mujoco", "gymnasium", "dm_control")


def files_of_wheels() -> list[Path]:
    """The MJCF files of the wheels that are installed; parts that are there to be included are none."""
    found = []
    for name in WHEELS:
        wheel = importlib.util.find_spec(name)
        for folder in wheel.submodule_search_locations or [] if wheel else []:
            found += sorted(path for path in Path(folder).rglob("*.xml") if "<mujoco" in path.read_text())
    return [path for path in found if "<mujocoinclude" not in path.read_text()]


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--tolerance", default=1e-6, show_default=True, help="Largest relative error of accelerations.")
def main(paths: tuple[Path, ...], tolerance: float) -> None:
    files = [file for path in paths for file in (sorted(path.rglob("*.xml")) if path.is_dir() else [path])]
    counts: Counter[str] = Counter()
    for path in files or files_of_wheels():
        verdict = mujoco_oracle.verdict(path, tolerance=tolerance)
        counts[verdict.outcome] += 1
        shown = "/".join(path.parts[-4:])
        click.echo(f"{verdict.outcome:8}{verdict.error:9.1e}{verdict.rest:9.1e}  {shown}: {verdict.warning[:100]}")
    total = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("exact", "named", "refused", "wrong"))
    click.echo(f"{sum(counts.values())} files: {total}")
    sys.exit(1 if counts["wrong"] else 0)


if __name__ == "__main__":
    main()
