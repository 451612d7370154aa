"""What the README shows works as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n", 1)[0])
def test_an_example_runs_and_converges(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, str(README), "exec"), names)
    assert names["solution"].converged


def test_the_first_commands_are_those_that_a_stranger_needs():
    commands = re.findall(r"^make \w+", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
