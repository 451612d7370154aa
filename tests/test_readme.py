"""What the README shows works as it stands there."""

import re
from pathlib import Path

import pytest
import xarray
from commands import mayne

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n", 1)[0])
def test_an_example_runs_and_converges(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, str(README), "exec"), names)
    assert names["solution"].converged


PLANS = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


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
