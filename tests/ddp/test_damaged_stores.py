"""Stores whose files are lost, cut or changed, or cannot be opened, say so in words."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from many_systems import of, straight

import ddp
from ddp.many import driver, store
from ddp.many.progress import Progress
from dynamics import FunctionDynamics


def test_what_a_store_has_lost_is_told_and_no_zero(problem, over, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 1)  # 32 rows a chunk, the fewest
    monkeypatch.delattr(zarr.Array, "with_config", raising=False)  # zarr 3.1 to 3.1.5 have none
    few = {name: values[:40] for name, values in over.items()}
    path = ddp.solve_many(problem, few, executor=1, into=tmp_path / "a.zarr")._source.store.root
    for name in ("X", "converged", "sentence", "start", "over.x0"):
        file = sorted(one for one in (path / name / "c").rglob("*") if one.is_file())[-1]
        whole = file.read_bytes()
        file.unlink()
        rows = "0 to 39" if name.startswith("over") else "32 to 39"
        with pytest.raises(ddp.ProblemError, match=rf"^path: .*a\.zarr/{name} is damaged in rows {rows} \("):
            np.asarray(getattr(ddp.Solutions.open(path, problem), name))
        file.write_bytes(whole)
    (path / "X" / "c" / "1" / "0" / "0").unlink()
    opened = ddp.Solutions.open(path, problem)
    assert opened.X[np.arange(40) < 32].shape == opened.X[:32].shape == opened.X[::64].repeat(32, 0).shape
    for which in (35, slice(30, 34), [1, 39], np.arange(40) > 38, (..., 0), (slice(None), 0), slice(0, 40, 39)):
        with pytest.raises(ddp.ProblemError, match=r"a\.zarr/X is damaged in rows 32 to 39 \("):
            opened.X[which]
    for name in ("converged", "over.x0"):
        shutil.rmtree(path / name)
        with pytest.raises(ddp.ProblemError, match=f"a.zarr is damaged, it lacks .*{name}"):
            ddp.Solutions.open(path, problem)


@pytest.mark.parametrize("file", ["cost/zarr.json", "over.x0/zarr.json", "over.x0/c/0/0", "done/c/0", "cost/c/0"])
def test_files_of_a_store_that_are_cut_are_told(file, problem, over, tmp_path):
    few, path = {name: values[:3] for name, values in over.items()}, tmp_path / "a.zarr"
    ddp.solve_many(problem, few, executor=1, into=path)
    os.truncate(path / file, (path / file).stat().st_size // 2)
    with pytest.raises(ddp.ProblemError, match=r"^path: .*a\.zarr(/\S+)? is damaged( in rows 0 to 2)? \("):
        str(ddp.Solutions.open(path, problem))
    if not file.startswith(("cost/c", "over.x0/c")):
        with pytest.raises(ddp.ProblemError, match=r"^into: .*a\.zarr(/\S+)? is damaged( in rows 0 to 2)? \("):
            ddp.solve_many(problem, few, executor=1, into=path)


def test_a_flipped_bit_is_told_with_its_file_and_rows(problem, over, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 1)  # 32 rows a chunk, the fewest
    ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr")
    for name in ("X", "U", "K", "cost", "kind", "done", "over.x0"):
        file = sorted(path for path in (tmp_path / "a.zarr" / name / "c").rglob("*") if path.is_file())[-1]
        whole = file.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            rows = f"{0 if name.startswith('over') else 64} to 89"
            with pytest.raises(ddp.ProblemError, match=rf"^path: .*a\.zarr/{name} is damaged in rows {rows} \("):
                np.asarray(getattr(ddp.Solutions.open(tmp_path / "a.zarr", problem), name))
        file.write_bytes(whole)
    file = sorted(path for path in (tmp_path / "a.zarr" / "X" / "c").rglob("*") if path.is_file())[1]
    file.write_bytes(file.read_bytes().replace(b"\0", b"\1", 1)[::-1])
    opened = ddp.Solutions.open(tmp_path / "a.zarr", problem)
    assert opened.solution(31).converged
    assert opened.X[64:, -1].shape == (26, 2)
    for read in (lambda: opened.solution(32), lambda: opened.X[63, 0], lambda: opened.X[-40:]):
        with pytest.raises(ddp.ProblemError, match=r"a\.zarr/X is damaged in rows 32 to 63 \("):
            read()
    with pytest.raises(IndexError):
        opened.X[90]


def test_stores_of_before_whose_zeros_have_no_files_are_read_and_resumed(problem, over, tmp_path):
    few, path = {name: values[:3] for name, values in over.items()}, tmp_path / "a.zarr"
    ddp.solve_many(problem, few, executor=1, into=path)
    zarr.open_group(str(path), mode="r+").attrs["version"] = 3
    (path / "start" / "c" / "0").unlink()
    assert not ddp.Solutions.open(path, problem).start.any()
    (path / "done" / "c" / "0").unlink()
    assert ddp.solve_many(problem, few, executor=1, into=path).done.all()


def test_samples_without_numbers_have_no_file_to_lose(tmp_path):
    system = FunctionDynamics(lambda x, u, p: x + 0.1 * u, 1, 1, dt=0.1, parameters=np.zeros(0))
    problem = ddp.Problem(system, [straight()], [straight()], np.ones(1), 3)
    over = {"dynamics.parameters": np.zeros((2, 0)), "x0": np.ones((2, 1))}
    ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr")
    assert ddp.Solutions.open(tmp_path / "a.zarr", problem).done.all()


def test_what_a_store_has_lost_is_solved_again_to_the_same_bits(problem, over, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 1)  # 32 rows a chunk, the fewest
    given = {"problem": problem, "over": over, "executor": 1, "start": "neighbours", "into": tmp_path / "a.zarr"}
    whole, told = of(ddp.solve_many(**given)), list[Progress]()
    (tmp_path / "a.zarr" / "done" / "c" / "1").unlink()
    assert ddp.Solutions.open(tmp_path / "a.zarr").done.sum() == 58
    assert of(ddp.solve_many(**given, progress=told.append)) == whole
    assert max(progress.done for progress in told) == 90


def test_a_store_that_is_removed_meanwhile_is_told_once(problem, over, tmp_path):
    few = {name: values[:3] for name, values in over.items()}
    with pytest.raises(ddp.ProblemError, match=r"^into: \S+a\.zarr/done is damaged .*: solve anew$"):
        ddp.solve_many(
            problem, few, executor=1, into=tmp_path / "a.zarr", progress=lambda told: shutil.rmtree(tmp_path / "a.zarr")
        )


def test_what_is_no_damage_is_told_as_it_is(tmp_path):
    for code in (errno.EMFILE, errno.EACCES, errno.EIO):
        with (
            pytest.raises(ddp.ProblemError, match=f"^path: cannot read .*a.zarr: {os.strerror(code)}$"),
            store.reading(tmp_path / "a.zarr"),
        ):
            raise OSError(code, os.strerror(code))
    with pytest.raises(MemoryError, match="Unable to allocate"), store.reading(tmp_path / "a.zarr"):
        np.zeros(1 << 55)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open files")
def test_no_file_of_rows_that_wait_stays_open(problem, over, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LASTING", 1e-9)  # a block a task
    waiting, there = tmp_path / "a.zarr.parts", []

    def look(progress):
        there.append(len(list(waiting.glob("rows-*.npy"))))
        links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        assert not [link for link in links if link.is_symlink() and str(waiting) in os.readlink(link)]

    ddp.solve_many(problem, over, executor=1, into=tmp_path / "a.zarr", progress=look)
    assert max(there) > 1
