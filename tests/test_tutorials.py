"""Tutorials run as they stand, and print what they say."""

import doctest
import importlib.util
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)
CHECKER, LOOSELY = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_page_prints_what_it_says_and_becomes_a_notebook(page, tmp_path, monkeypatch):
    """The notebook goes into site/notebooks."""
    monkeypatch.chdir(tmp_path)
    names = {}

    def look(cell, printed):
        assert CHECKER.check_output(cell.printed or "", printed, LOOSELY), f"{cell.source}\nprints\n{printed}"

    found = notebooks.notebook(page, names, look=look)
    if "solution" in names:
        assert names["solution"].converged
    assert notebooks.write(page, found, ROOT / "site" / "notebooks").is_file()


def test_a_notebook_has_every_cell_with_what_it_printed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n```text\n2\n```\n\nThe end.\n")
    found = json.loads(json.dumps(notebooks.notebook(page)))
    assert [cell["cell_type"] for cell in found["cells"]] == ["code", "markdown", "code", "markdown"]
    stream, result = found["cells"][2]["outputs"]
    assert (stream["text"], result["data"]["text/plain"]) == (["2\n"], ["3"])
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    plain = notebooks.notebook(page, executed=False)
    assert [cell["source"] for cell in plain["cells"]] == [cell["source"] for cell in found["cells"]]
    assert not any(cell.get("outputs") for cell in plain["cells"])


def test_hosts_install_what_is_checked_out():
    binder = ROOT / ".binder"
    assert (binder / "requirements.txt").read_text(encoding="utf-8").split() == ["."]
    assert "docs/notebooks.py" in (binder / "postBuild").read_text(encoding="utf-8")


def test_pages_open_on_a_host_where_the_repository_is_known(tmp_path, monkeypatch):
    page = notebooks.COURSE[-1]
    monkeypatch.delenv("MAYNE_REPOSITORY", raising=False)
    assert notebooks.hosted(page) == ""  # nobody's address is made up
    monkeypatch.setenv("MAYNE_REPOSITORY", "https://github.com/someone/mayne.git")
    address = "https://mybinder.org/v2/gh/someone/mayne/HEAD?labpath=notebooks%2Fcourse%2F13-soft.ipynb"
    assert notebooks.hosted(page).endswith(f"]({address})")
    first = "".join(notebooks.notebook(page, executed=False)["cells"][0]["source"])
    assert 'get("MAYNE_SOURCE", "git+https://github.com/someone/mayne.git")' in first


@pytest.mark.parametrize("pages", [notebooks.TUTORIALS, notebooks.COURSE], ids=["tutorials", "course"])
def test_pages_are_a_ladder(pages):
    """Each leads to the next, and the site has all of them."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert len(pages) == {"tutorials": 13, "course": 13}[pages[0].parent.name]
    assert all(f"{page.parent.name}/{page.stem}\n" in index for page in pages)
    for page, following in pairwise(pages):
        assert re.search(rf"\]\({re.escape(following.name)}\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", notebooks.COURSE, ids=lambda page: page.stem)
def test_chapters_have_exercises_and_as_many_solutions(page):
    text = page.read_text(encoding="utf-8")
    _, exercises, solutions = re.split(r"^## (?:Exercises|Solutions)$", text, flags=re.MULTILINE)
    asked = re.findall(r"^(\d)\. ", exercises, flags=re.MULTILINE)
    assert asked
    assert asked == re.findall(r"^\*\*(\d)\.\*\*", solutions, flags=re.MULTILINE)


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
