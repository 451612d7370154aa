"""Abuse of the ``mayne`` command: every option of every command that ends by itself."""

import tempfile
from pathlib import Path

from click.testing import CliRunner

from abuse.hostile import Word
from abuse.subjects import Subject
from ddp.errors import ProblemError
from problems import cli

SOLVING = {"--horizon": "5", "--max-iterations": "5", "--tolerance": "1e-6"}
PROBLEM = "pendulum/swing-up"


def subjects():
    folder = Path(tempfile.mkdtemp(prefix="mayne-abuse-"))
    saved = str(folder / "saved.npz")
    written = {
        "--save": saved, "--plot": str(folder / "plot.png"), "--html": str(folder / "motion.html"), "--workers": "1",
        "--solver": "ddp",
    }  # fmt: skip
    return [
        _command("list", {"NAME": PROBLEM}),
        _command("solve", {"NAME": PROBLEM} | SOLVING | written),
        _command("solve", {"NAME": PROBLEM, "--mass": "1", "--dt": "0.03", "--final-weight": "10"} | SOLVING),
        _command("compare", {"NAME": PROBLEM, "--plot": str(folder / "plot.png")} | SOLVING),
        _command("mpc", {"NAME": PROBLEM, "--horizon": "5", "--steps": "2", "--push": "0.1", "--every": "1"}),
        _command(
            "play", {"NAME": PROBLEM, "--horizon": "5", "--delay": "0.001", "--mass": "1.1", "--noise": "1"}, ["--rate"]
        ),
        _command("view", {"FILE": saved, "--html": str(folder / "seen.html"), "--problem": PROBLEM}),
        _command("check", {"NAME": PROBLEM, "--horizon": "5"}),
        _command("bench", {"NAME": PROBLEM, "--repeat": "1"}, ["--repeat"]),  # which takes as long as one asks for
    ]


def _command(name, options, spare=()):
    def run(**given):
        words = [word for option, word in given.items() for word in ([option, word] if option[0] == "-" else [word])]
        result = CliRunner().invoke(cli.main, [name, *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code not in (0, 1, 2):
            raise RuntimeError(f"exit status {result.exit_code}")
        if result.exit_code == 2:
            raise ProblemError(result.stderr.partition("Error: ")[2].strip())

    hyphens = "option", "extra argument"  # words that begin with a hyphen are options; all behind -- are arguments
    others = {"NAME": ("problem", "name", *hyphens), "FILE": ("file", "path", *hyphens)}
    others |= {"--dt": ("dt",), "--mass": ("mass",)}
    others |= {"--horizon": ("horizon",), "--final-weight": ("final_weight",), "--steps": ("steps",)}
    others |= {"--max-iterations": ("max_iterations",), "--tolerance": ("tolerance",), "--workers": ("workers",)}
    others |= {"--html": ("path",), "--plot": ("path",), "--save": ("path",)}
    others |= {"--delay": ("delay",), "--noise": ("noise",)}
    others |= {"--push": ("push",), "--every": ("every",), "--problem": ("problem", "file", "path")}
    arguments = {option: Word(word) for option, word in options.items()}
    return Subject(f"mayne {name}", run, arguments, spare, others)
