"""Tutorials and the course as executed notebooks: `make notebooks`, or `python docs/notebooks.py FOLDER`, writes them.

``--unexecuted`` leaves outputs out, for hosts where readers run them (`.binder/`). A page is Markdown whose Python
blocks run one after the other. A block of text behind one is its output, with ``...`` for what differs from run to
run; `tests/test_tutorials.py` holds pages to that.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TUTORIALS, COURSE = (
    sorted((HERE / name).glob("[0-9]*.md"), key=lambda page: int(page.name.partition("-")[0]))
    for name in ("tutorials", "course")
)
PAGES = [*TUTORIALS, *COURSE]
INSTALL = """import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("mayne") is None:  # MAYNE_SOURCE: the folder or the git+https:// address of mayne's sources
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", os.environ["MAYNE_SOURCE"]], check=True)"""
"""First cell of every notebook."""

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)


def repository():
    """Public address of the sources: of MAYNE_REPOSITORY, or of `urls.Repository` in pyproject.toml; "" without."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return os.environ.get("MAYNE_REPOSITORY", project.get("urls", {}).get("Repository", "")).removesuffix("/")


def hosted(page):
    """Line of Markdown that opens a page's notebook on Binder; "" where no repository on GitHub is known."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?", repository())
    if found is None:
        return ""
    path = f"notebooks%2F{page.parent.name}%2F{page.stem}.ipynb"
    return f"[Open this page as a notebook on Binder](https://mybinder.org/v2/gh/{found[1]}/HEAD?labpath={path})"


class Cell(NamedTuple):
    """Part of a tutorial: "markdown" or "code"; printed: what code shall print, None if the page does not say."""

    kind: str
    source: str
    printed: str | None = None


def cells_of(page):
    """The cells of a page, in order."""
    text, found, at = page.read_text(encoding="utf-8"), [], 0
    for block in BLOCK.finditer(text):
        between = text[at : block.start()].strip()
        at = block.end()
        if between:
            found.append(Cell("markdown", between))
        if block[1] == "python":
            found.append(Cell("code", block[2].rstrip()))
        elif found and found[-1].kind == "code":
            found[-1] = found[-1]._replace(printed=block[2])
    rest = text[at:].strip()
    return [*found, Cell("markdown", rest)] if rest else found


def run(cell, names):
    """Output that a cell of code prints, and the value of its last line if that is an expression."""
    tree, value, printed = ast.parse(cell.source), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<tutorial>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), names)
    return printed.getvalue(), value


def notebook(page, names=None, executed=True, look=lambda cell, printed: None):
    """A page as a Jupyter notebook, version 4 of the format, executed or not.

    names: takes what the page defines.   look: is told what each cell of code has printed.
    """
    names, cells = {} if names is None else names, []
    names["__name__"] = "__main__"
    install = INSTALL
    if repository():
        install = install.replace('["MAYNE_SOURCE"]', f'.get("MAYNE_SOURCE", "git+{repository()}")')
    for number, cell in enumerate([Cell("code", install), *cells_of(page)]):
        about = {"id": f"cell{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
        if cell.kind == "markdown":
            cells.append({"cell_type": "markdown", **about})
            continue
        printed, value = run(cell, names) if executed else ("", None)
        look(cell, printed)
        outputs = []
        if printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)})
        if value is not None:
            shown = {"text/plain": repr(value).splitlines(keepends=True)}
            html = value._repr_html_() if hasattr(value, "_repr_html_") else None
            shown |= {"text/html": html.splitlines(keepends=True)} if html else {}
            outputs.append({"output_type": "execute_result", "execution_count": number, "data": shown, "metadata": {}})
        count = number if executed else None
        cells.append({"cell_type": "code", "execution_count": count, "outputs": outputs, **about})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(page, found, folder):
    """Write a page's notebook into a folder: where it is."""
    path = folder / page.parent.name / page.with_suffix(".ipynb").name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + os.linesep, encoding="utf-8")
    return path


def main():
    """Write all of them into a folder."""
    options = sys.argv[1:]
    executed = "--unexecuted" not in options
    folders = [option for option in options if option != "--unexecuted"]
    folder = Path(folders[0] if folders else HERE.parent / "site" / "notebooks").resolve()
    for page in PAGES:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            found = notebook(page, executed=executed)
        print(write(page, found, folder))


if __name__ == "__main__":
    main()
