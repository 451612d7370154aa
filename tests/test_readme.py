"""Examples of the README and of the pages of the site run as they stand there."""

import re
from pathlib import Path

import pytest
import xarray
from commands import mayne
from thorough import cases

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(page, example, id=f"{page.stem}: {example.split(chr(10), 1)[0]}")
    for page in PAGES
    for example in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
]

LARGE = re.compile("gallery: # (an ANYmal with a Kinova|Baxter|an Allegro|Talos)")
"""Robots of as many joints as others of the gallery have together."""


@pytest.mark.parametrize(("page", "example"), cases(EXAMPLES, [one for one in EXAMPLES if not LARGE.match(one.id)]))
def test_an_example_runs_and_converges(page, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(example, str(page), "exec"), names)
    if "solution" in names:
        assert names["solution"].converged


PLANS = [plan for page in PAGES for plan in re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)]


@pytest.mark.parametrize("plan", PLANS, ids=lambda text: text.split(":", 1)[0])
def test_a_plan_is_swept_in_two_shares_and_read_back(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(plan.replace("samples = 1000000", "samples = 6\nprocesses = 1"))
    for share in ("1/2", "2/2"):
        assert mayne("sweep", "plan.toml", "--shard", share, "--quiet").exit_code == 0
    with xarray.open_zarr("reach.zarr", consolidated=False) as data:
        assert data["converged"].values.all()
        assert data["X"].shape == (6, 101, 12)


def test_the_first_commands_are_those_that_a_stranger_needs():
    commands = re.findall(r"^make \w+", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
