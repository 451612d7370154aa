"""Stores of many solves: resumed after any end, read back as they were kept, refused where they do not fit."""

import dataclasses
import errno
import inspect
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from decimal import Decimal
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from benchmarks.processes import session
from many_systems import drift, files_of, of, straight
from scipy.interpolate import CubicSpline
from thorough import cases

import ddp
import problems
from ddp.many import driver
from ddp.many.buffers import Parts
from ddp.many.identity import difference, digest, identity_of
from ddp.many.progress import Progress
from problems import pendulum

HERE = Path(__file__).parent

FEW = ddp.DDP(max_iterations=12)
"""A solver that leaves some samples before they converge."""


def test_shards_write_one_store_in_any_order(problem, over, serial, tmp_path):
    for number in (3, 1, 2):
        share = ddp.solve_many(
            problem, over, executor=1, start="neighbours", into=tmp_path / "a.zarr", shard=(number, 3), verify=False
        )
        assert share.done.all() == (number == 2)
        told = ddp.Solutions.open(tmp_path / "a.zarr")
        assert (share.waiting > 0) == (number != 2) == (f"{share.waiting} more solved but not in" in str(share))
        assert told.waiting == share.waiting
        assert str(told) == str(share)
    alone = ddp.solve_many(problem, over, executor=1, start="neighbours", into=tmp_path / "b.zarr", verify=False)
    assert of(share) == of(alone)
    shutil.rmtree(tmp_path / "b.zarr")
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("start", [None, "neighbours"])
def test_a_batch_that_is_interrupted_again_and_again_ends_the_same(start, problem, over, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LASTING", 1e-9)  # a block a task
    solved = []

    def interrupt(progress):
        solved.append(progress.done)
        if len(solved) % 2 == 0 and progress.done < progress.total:
            raise KeyboardInterrupt

    given = {"problem": problem, "over": over, "executor": 1, "start": start}
    for _ in range(100):
        try:
            again = ddp.solve_many(**given, into=tmp_path / "a.zarr", progress=interrupt)
            break
        except KeyboardInterrupt:
            continue
    assert len(solved) > 2
    assert sorted(solved) == solved  # no row was lost
    assert of(again) == of(ddp.solve_many(**given, into=tmp_path / "b.zarr"))


def begun(path, problem, over, start):
    """A store that was interrupted after some tasks, which have left their parts."""

    def interrupt(progress):
        if progress.done > 40:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "LASTING", 1e-9)
        with pytest.raises(KeyboardInterrupt):
            ddp.solve_many(problem, over, FEW, executor=1, start=start, into=path, progress=interrupt)


LEFT = {
    "nothing": lambda whole: b"", "no rows": lambda whole: b"no rows",
    "no head": lambda whole: b"\x93NUMPY\x01\x00\xff\x00{", "a half": lambda whole: whole[: len(whole) // 2],
    "zeros": lambda whole: whole[:80] + bytes(len(whole) - 80),
    "zeros at the end": lambda whole: whole[:-500] + bytes(500),
}  # fmt: skip
"""Files of a power cut, of whole ones."""

ENDS = [(start, left) for start in (None, "neighbours") for left in LEFT]


@pytest.mark.parametrize(
    ("start", "left"), cases(ENDS, [(None, "no head"), ("neighbours", "a half"), ("neighbours", "zeros at the end")])
)
def test_parts_that_a_power_cut_has_left_are_solved_again(start, left, problem, over, tmp_path):
    path = tmp_path / "a.zarr"
    begun(path, problem, over, start)
    before = ddp.Solutions.open(path).waiting
    kinds = ("rows", "policies") if start else ("rows",)
    for i, kind in enumerate(kinds):
        part = sorted((tmp_path / "a.zarr.parts").glob(f"{kind}-*.npy"))[-i]
        part.write_bytes(LEFT[left](part.read_bytes()))
    assert 0 < ddp.Solutions.open(path).waiting < before
    again = ddp.solve_many(problem, over, FEW, executor=1, start=start, into=path)
    assert of(again) == of(ddp.solve_many(problem, over, FEW, executor=1, start=start, into=tmp_path / "b.zarr"))


def test_progress_of_a_store_that_is_resumed_counts_what_has_converged(problem, over, tmp_path):
    begun(tmp_path / "a.zarr", problem, over, None)
    told = list[Progress]()
    many = ddp.solve_many(problem, over, FEW, executor=1, into=tmp_path / "a.zarr", progress=told.append)
    assert 0 < many.converged.sum() < 90
    assert told[-1][:4] == (90, 90, many.converged.sum(), 0)


def test_a_store_that_another_process_completes_meanwhile_is_left_complete(problem, over, tmp_path, monkeypatch):
    put, given = Parts.put, {"problem": problem, "over": over, "executor": 1}

    def ends_later(parts, rows, policies):
        put(parts, rows, policies)
        monkeypatch.undo()
        ddp.solve_many(**given, into=tmp_path / "a.zarr")

    monkeypatch.setattr(Parts, "put", ends_later)
    many = ddp.solve_many(**given, into=tmp_path / "a.zarr")
    assert of(many) == of(ddp.solve_many(**given, into=tmp_path / "b.zarr"))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


KILLED = """
import numpy as np, ddp, sys, time
from problems import pendulum
if __name__ == "__main__":
    over = {"x0": 0.2 * np.random.default_rng(4).normal(size=(200, 2))}
    wait = lambda told: time.sleep(60.0 * (told.done > 40))  # to be killed, however late that comes
    ddp.solve_many(pendulum.swing_up(horizon=60), over, executor=2, start="neighbours", into=sys.argv[1], progress=wait)
"""


def test_a_killed_batch_leaves_no_process_and_resumes_to_the_same_bits(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    path, env = tmp_path / "a.zarr", os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen([sys.executable, script, path], env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    parts = tmp_path / "a.zarr.parts"
    while not (parts.is_dir() and len(list(parts.glob("rows-*.npy"))) > 1) and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    until = time.monotonic() + 60.0
    while time.monotonic() < until and session(run.pid):
        time.sleep(0.05)
    assert session(run.pid) == []
    problem, over = pendulum.swing_up(horizon=60), {"x0": 0.2 * np.random.default_rng(4).normal(size=(200, 2))}
    already = int(ddp.Solutions.open(path).done.sum())
    again = ddp.solve_many(problem, over, executor=1, start="neighbours", into=path)
    assert already < 200
    assert of(again) == of(ddp.solve_many(problem, over, executor=1, start="neighbours", into=tmp_path / "b.zarr"))


def test_a_store_is_read_back_as_it_was_kept(problem, over, serial):
    path = serial._source.store.root
    opened = ddp.Solutions.open(path, problem)
    assert str(opened) == str(serial)
    assert opened.consistency() == serial.consistency()
    with pytest.raises(ddp.ProblemError, match="path: there is no store"):
        ddp.Solutions.open(Path(f"{path}.other"))
    with pytest.raises(ddp.ProblemError, match=r"problem: expected one: Solutions\.open"):
        ddp.Solutions.open(path).consistency()
    with pytest.raises(ddp.ProblemError, match=r"is a store of another problem, which differs in .*horizon"):
        ddp.Solutions.open(path, pendulum.swing_up(horizon=problem.horizon + 1))
    there = opened.solution(17)
    assert there.stationarity() < 1e-6
    assert np.array_equal(there.X, serial.X[17])
    with xarray.open_zarr(path, consolidated=False) as data:
        assert data["X"].dims == ("sample", "state_knot", "state")
        assert np.array_equal(data["over.x0"].values, over["x0"])
        assert np.array_equal(data["cost"].values, serial.cost)
        assert data["sample"].values.tolist() == list(range(90))
        assert np.array_equal(data["state_knot"].values, there.t)
        assert data["U"].sel(knot=there.t[3]).shape == (90, 1)
        assert data["kind"].values.tolist() == serial.kind.tolist() == opened.kind.tolist()
        assert np.array_equal(data["X"].sel(state=next(iter(there.q))).values, serial.X[:, :, 0])
    assert b"pickle" not in b"".join(name.encode() for name in files_of(path))


def test_solutions_say_in_short_what_they_are_and_where(problem, over, serial):
    few = ddp.solve_many(problem, {name: values[:3] for name, values in over.items()}, FEW, executor=1)
    assert repr(few) == f"<Solutions: {few}; kinds: {int(few.converged.sum())} minimum; X, U, K in memory>"
    assert repr(serial).endswith(f"; kinds: 90 minimum; X, U, K in {serial._source.store.root}>")
    assert str(ddp.solve_best(problem, [None])).startswith("1 optimum: ")


def test_solutions_list_what_was_kept_and_nothing_else(serial):
    for many in (serial, ddp.Solutions.open(serial._source.store.root)):
        listed = dir(many)
        assert {"cost", "iterations", "sentence", "X", "U", "K", "solution"} <= set(listed)
        assert not {"k", "multipliers"} & set(listed)
        assert [name for name, _ in inspect.getmembers(many)] == listed


def test_a_store_of_another_version_is_refused(problem, over, tmp_path):
    ddp.solve_many(problem, {name: values[:3] for name, values in over.items()}, executor=1, into=tmp_path / "a.zarr")
    zarr.open_group(str(tmp_path / "a.zarr"), mode="r+").attrs["version"] = 1
    with pytest.raises(ddp.ProblemError, match=r"a.zarr is a store of version 1, expected 4: solve anew"):
        ddp.Solutions.open(tmp_path / "a.zarr", problem)


def test_a_store_that_a_killed_process_had_begun_to_make_is_removed(problem, over, tmp_path):
    begun = tmp_path / ".a[1].zarr.4321.new"
    begun.mkdir()
    (begun / "zarr.json").write_text("{")
    few = {name: values[:3] for name, values in over.items()}
    ddp.solve_many(problem, few, executor=1, into=tmp_path / "a[1].zarr")
    assert os.listdir(tmp_path) == ["a[1].zarr"]


def test_numbers_are_kept_as_asked(problem, over, tmp_path):
    few = {name: values[:5] for name, values in over.items()}
    many = ddp.solve_many(problem, few, executor=1, into=tmp_path / "a.zarr", keep=("X", "U"), dtype="float32")
    assert many.X.dtype == np.float32
    with pytest.raises(ddp.ProblemError, match="K: it was not kept"):
        many.K  # noqa: B018
    with pytest.raises(ddp.ProblemError, match="solution: K were not kept"):
        many.solution(0)
    whole = ddp.solve_many(problem, few, executor=1, dtype="float32")
    whole[-1].save(tmp_path / "one.npz")
    for again in (ddp.Solution.load(tmp_path / "one.npz", whole[4].problem), whole[4].attached(whole[4].problem)):
        assert np.array_equal(again.X, whole.X[4])
    with pytest.raises(ddp.ProblemError, match="this solution is of another: it starts at"):
        whole[4].attached(whole[3].problem)
    for beyond in (5, -6):
        with pytest.raises(IndexError, match=f"i: expected one of 5 solutions, from -5 to 4, got {beyond}"):
            whole[beyond]


@pytest.mark.parametrize(("change", "words"), [
    ({"problem": pendulum.swing_up(horizon=60, control_weight=0.2)}, r"another problem: running\[0\] \(ControlCost\)"),
    ({"solver": ddp.ILQR()}, "is of another problem: solver differs"),
    ({"start": None}, "is of another plan: start, verify differ"),
    ({"verify": True}, "is of another plan: verify differs"),
    ({"dtype": "float32"}, "is of another plan: dtype differs"),
    ({"over": "other"}, "has other samples: x0 differs"),
])  # fmt: skip
def test_a_store_of_another_batch_is_refused_with_what_differs(change, words, problem, over, serial):
    if "over" in change:
        change = {"over": over | {"x0": over["x0"] + 1.0}}
    given = {"problem": problem, "over": over, "executor": 1, "start": "neighbours", "into": serial._source.store.root}
    with pytest.raises(ddp.ProblemError, match=words):
        ddp.solve_many(**given | change)


@pytest.mark.parametrize("start", [None, "neighbours"])
def test_rows_that_wait_for_a_store_that_was_removed_serve_no_other_batch(start, problem, over, tmp_path):
    path, other = tmp_path / "a.zarr", pendulum.swing_up(horizon=60, control_weight=0.2)
    begun(path, problem, over, start)
    shutil.rmtree(path)
    many = ddp.solve_many(other, over, FEW, executor=1, start=start, into=path)
    assert of(many) == of(ddp.solve_many(other, over, FEW, executor=1, start=start, into=tmp_path / "b.zarr"))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_what_is_no_store_is_refused(problem, over, tmp_path):
    (tmp_path / "file").write_text("text")
    zarr.open_group(str(tmp_path / "other.zarr"), mode="w")
    for name in ("file", "other.zarr"):
        with pytest.raises(ddp.ProblemError, match=r"is no store of solves$"):
            ddp.solve_many(problem, over, executor=1, into=tmp_path / name)
    with pytest.raises(ddp.ProblemError, match=r"into: expected a name that ends with \.zarr, got \."):
        ddp.solve_many(problem, over, executor=1, into="")
    with pytest.raises(ddp.ProblemError, match="there is no folder"):
        ddp.solve_many(problem, over, executor=1, into=tmp_path / "no" / "a.zarr")


def test_solutions_of_constrained_samples_keep_their_multipliers(problem, over):
    bounded = dataclasses.replace(problem, terminal_constraints=[ddp.Equality(lambda x, u: x)])
    states = {"x0": over["x0"][:4]}
    many = ddp.solve_many(bounded, states, executor=1)
    assert np.abs(many.multipliers).max() > 1e-3
    for i in range(4):
        assert many.solution(i).stationarity() < 1e-6
    few = ddp.solve_many(bounded, states, executor=1, keep=("X", "U", "K"))
    with pytest.raises(ddp.ProblemError, match="solution: multipliers, penalties were not kept, see `keep`"):
        few.solution(0)


class Group:
    """A class of a user's that has an identity of its own."""

    def __init__(self, size):
        self.size = size

    def identity(self, n=1):
        return np.eye(n)


def test_what_functions_enclose_tells_stores_apart_whatever_it_is():
    def enclosing(thing):
        return lambda x, u: thing

    several = [np, os, Group(2), Group(3), Group, np.eye(2), np.float64(2.0)]
    several += [kind(value) for kind in (Decimal, bytearray, np.random.default_rng, itemgetter) for value in (2, 3)]
    several += [np.array([Group(size)]) for size in (2, 3)] + [np.ma.array([1, 2], mask=[i, 0]) for i in (0, 1)]
    several += [deque([2]), deque([3]), re.compile("a"), re.compile("b"), CubicSpline(range(3), range(3))]
    assert len({digest(enclosing(one)) for one in several}) == len(several)
    assert digest(enclosing(Group(2))) == digest(enclosing(Group(2)))
    assert digest(np.array([Group(2)])) == digest(np.array([Group(2)]))


NAMING = """
class Along:
    derivatives = 'differences'
    def value(self, x, u):
        return path(1.5) * (x @ x)
"""


def test_objects_that_a_users_code_names_tell_stores_apart():
    def identity(scale):
        module = {"__name__": "mine", "path": CubicSpline(np.arange(4.0), scale * np.arange(4.0))}
        exec(NAMING, module)
        return identity_of(ddp.Problem(drift, [module["Along"](), straight()], [], np.ones(2), 3), ddp.DDP())

    assert difference(identity(2.0), identity(2.0)) == ""
    assert difference(identity(2.0), identity(3.0)) == "running[0] (Along)"


TERM = """
from functools import cached_property
import numpy as np
FACTOR = 2.0
class Term:
    {kind}
    weight = 2.0
    @cached_property
    def squares(self):
        return np.eye(2)
    def scaled(self, x, *, by=2.0):
        return 2.0 * by * self.weight * FACTOR * (x @ self.squares @ x)
    def value(self, x, u):
        return self.scaled(x)
"""


@pytest.mark.parametrize("kind", ["derivatives = 'differences'", ""])
def test_code_of_users_tells_stores_apart_and_what_was_asked_for_does_not(kind):
    def identity(before="", after="", solved=False):
        module = {"__name__": "mine"}
        exec(TERM.format(kind=kind).replace(before, after, 1), module)
        problem = ddp.Problem(drift, [module["Term"](), straight()], [], np.ones(2), 3)
        if solved:
            ddp.solve(problem)
        return identity_of(problem, ddp.DDP())

    same = identity()
    assert identity() == identity(solved=True) == same
    for before, after in {
        "FACTOR = 2": "FACTOR = 3", "weight = 2": "weight = 3", "by=2": "by=3", "return 2": "return 3",
        "eye(2)": "ones((2, 2))",
    }.items():  # fmt: skip
        assert difference(identity(before, after), same).endswith("running[0] (Term)" if kind else "reads")


@pytest.mark.parametrize("name", ["arm/elastic", "mobile/reach", "arm/best-start", "integrator/quickest"])
def test_the_store_of_a_composed_problem_is_that_of_the_problem_made_again(name):
    problem = problems.find(name).build(horizon=5)
    same = identity_of(problem, ddp.DDP())
    assert difference(identity_of(problems.find(name).build(horizon=5), ddp.DDP()), same) == ""
    ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    assert difference(identity_of(problem, ddp.DDP()), same) == ""
    assert difference(identity_of(pickle.loads(pickle.dumps(problem)), ddp.DDP()), same) == ""


def test_a_store_that_other_sources_have_begun_goes_on_with_a_warning(problem, over, tmp_path, monkeypatch, caplog):
    few = {name: values[:2] for name, values in over.items()}
    for edition, told in (("older", 0), ("newer", 1)):
        monkeypatch.setattr("ddp.many.solve_many.edition", lambda edition=edition: edition)
        ddp.solve_many(problem, few, executor=1, into=tmp_path / "a.zarr")
        assert ["begun with other versions of mayne:" in message for message in caplog.messages] == [True] * told


def test_a_batch_too_large_for_the_disk_is_refused(problem, over, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(ddp.ProblemError, match=r"into: 90 solves of .* kB need .* GB, there are 1e-06 GB"):
        ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr")


def test_rows_that_cannot_be_written_end_a_batch_in_a_sentence(problem, over, tmp_path):
    (tmp_path / "a.zarr.parts").touch()
    with pytest.raises(ddp.ProblemError, match=r"into: cannot write .*a\.zarr\.parts: File exists; what was solved"):
        ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr")


def test_rows_that_cannot_be_read_end_a_batch_in_a_sentence(problem, over, tmp_path, monkeypatch):
    read = Path.read_bytes

    def refuse(path):
        if path.name.startswith("rows-"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ddp.ProblemError, match=r"into: cannot read .*rows-.*\.npy: Permission denied; what was solved"):
        ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr")
