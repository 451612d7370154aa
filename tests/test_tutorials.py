"""Tutorials run as they stand, and print what they say."""

import doctest
import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)
CHECKER, LOOSELY = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in notebooks.cells_of(page):
        if cell.kind == "code":
            printed, _ = notebooks.run(cell, names)
            assert CHECKER.check_output(cell.printed or "", printed, LOOSELY), f"{cell.source}\nprints\n{printed}"
    if "solution" in names:
        assert names["solution"].converged


def test_a_notebook_has_every_cell_with_what_it_printed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n```text\n2\n```\n\nThe end.\n")
    found = json.loads(json.dumps(notebooks.notebook(page)))
    assert [cell["cell_type"] for cell in found["cells"]] == ["markdown", "code", "markdown"]
    stream, result = found["cells"][1]["outputs"]
    assert (stream["text"], result["data"]["text/plain"]) == (["2\n"], ["3"])
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)


def test_tutorials_are_a_ladder():
    """Each leads to the next, and the site has all of them."""
    assert len(notebooks.PAGES) == 12
    for page, following in zip(notebooks.PAGES, notebooks.PAGES[1:], strict=False):
        assert re.search(rf"\]\({re.escape(following.name)}\)", page.read_text(encoding="utf-8"))


def test_the_gallery_has_twelve_kinds_with_pictures_and_iterations():
    """Their examples run among those of the pages, tests/test_readme.py."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    kinds = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert len(kinds) == len(re.findall(r"```python", text)) == 12
    assert re.findall(r"^\| ([A-Z].*?) \|", text, flags=re.MULTILINE) == kinds
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (ROOT / "docs" / picture).is_file()
    sources = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert max(sum(bool(line.strip()) for line in source.splitlines()) for source in sources) <= 20
