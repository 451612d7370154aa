"""Pages, pictures and the table of the gallery: `python docs/gallery.py FOLDER [KIND ...]`; pictures need Chromium."""

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

import mayne

PAGE = Path(__file__).with_name("gallery.md")
BLOCK = re.compile(r"^## (.*?)\n.*?```python\n(.*?)```", re.DOTALL | re.MULTILINE)
MOST = 300
"""Iterations of iLQR, at most."""


def main():
    """Run the examples, some kinds or all, in a folder."""
    folder, kinds = Path(sys.argv[1] if len(sys.argv) > 1 else "site/gallery").resolve(), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    print("| | DDP | iLQR | lines |\n|---|---|---|---|")
    for kind, source in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kinds and kind not in kinds:
            continue
        names = {}
        with contextlib.chdir(folder):
            exec(compile(source, kind, "exec"), names)
        solution = names["solution"]
        other = mayne.solve(solution.problem, mayne.ILQR(max_iterations=MOST), throw=False)
        count = str(other.iterations) if other.converged else f"not in {MOST}"
        lines = sum(bool(line.strip()) for line in source.splitlines()) - 1
        print(f"| {kind} | {solution.iterations} | {count} | {lines} |", flush=True)
        page = re.search(r'save_html\("(.*?)"', source)[1]
        with tempfile.TemporaryDirectory() as scratch:
            about = {"fps": 2.0 / float(solution.t[-1]), "width": 480, "height": 320}
            with contextlib.suppress(mayne.ProblemError):
                frames = mayne.save_video(Path(scratch) / "frames", folder / page, **about)
                shutil.copyfile(frames / "00001.png", folder / Path(page).with_suffix(".png").name)


if __name__ == "__main__":
    main()
