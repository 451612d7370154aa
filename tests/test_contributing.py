"""The pages of CONTRIBUTING work as they stand there."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from dynamics.steps import schemes

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = TEXT.split("\n### ")[1:]
BLOCKS = {page.split("\n", 1)[0]: re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) for page in PAGES}

ROOT = Path(__file__).parent.parent
ROWS = [row for row in TEXT.splitlines() if row.startswith("| ") and ".py`" in row]
ROOMS = ("ddp", "dynamics", "problems", "viz", "tests")
NAMES = {path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0].strip("| "))
def test_files_that_a_row_names_are_there(row):
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", row):
        assert (ROOT / name).exists() or name in NAMES, name


def test_there_are_pages_on_what_is_added_most():
    assert list(BLOCKS) == ["Add a cost", "Add a joint", "Add a step", "Add a model of the Hessian"]


@pytest.mark.parametrize("page", BLOCKS)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.setattr(schemes, "INTEGRATORS", dict(schemes.INTEGRATORS))
    assert BLOCKS[page]
    for number, block in enumerate(BLOCKS[page]):
        name = f"page_{number}"
        path = tmp_path / f"{name}.py"
        path.write_text(block, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
