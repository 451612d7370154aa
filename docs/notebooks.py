"""Tutorials as executed notebooks: `make notebooks`, or `python docs/notebooks.py FOLDER`, writes them.

A tutorial is a page of Markdown whose Python blocks run one after the other. A block of text behind one is its output,
with ``...`` for what differs from run to run; `tests/test_tutorials.py` holds pages to that.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGES = sorted((HERE / "tutorials").glob("[0-9]*.md"))
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)


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


def notebook(page):
    """An executed page as a Jupyter notebook, version 4 of the format."""
    names, cells = {"__name__": "__main__"}, []
    for number, cell in enumerate(cells_of(page)):
        about = {"id": f"cell{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
        if cell.kind == "markdown":
            cells.append({"cell_type": "markdown", **about})
            continue
        printed, value = run(cell, names)
        outputs = []
        if printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)})
        if value is not None:
            shown = {"text/plain": repr(value).splitlines(keepends=True)}
            html = value._repr_html_() if hasattr(value, "_repr_html_") else None
            shown |= {"text/html": html.splitlines(keepends=True)} if html else {}
            outputs.append({"output_type": "execute_result", "execution_count": number, "data": shown, "metadata": {}})
        cells.append({"cell_type": "code", "execution_count": number, "outputs": outputs, **about})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main():
    """Write all of them into a folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "site/notebooks").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            written = json.dumps(notebook(page), indent=1, ensure_ascii=False)
        (folder / page.with_suffix(".ipynb").name).write_text(written + os.linesep, encoding="utf-8")
        print(folder / page.with_suffix(".ipynb").name)


if __name__ == "__main__":
    main()
