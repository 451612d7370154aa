"""A solution's file is what it was when it was saved, or it is refused: quickly, in little memory, in a sentence."""

import io
import itertools
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from systems import pendulum

import ddp
from ddp import archive


@pytest.fixture(scope="module")
def solution():
    return ddp.solve(pendulum())


@pytest.fixture(scope="module")
def saved(solution, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "swing.npz"
    solution.save(path)
    return path.read_bytes()


def header(descr: str, shape: str, order: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def replaced(saved: bytes, name: str, content: bytes) -> bytes:
    """The file with other bytes for a member."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, content if info.filename == f"{name}.npy" else old.read(info))
    return made.getvalue()


def refused(path, content: bytes, problem=None) -> str:
    path.write_bytes(content)
    with pytest.raises(ddp.ProblemError, match="path: ") as caught:
        ddp.Solution.load(path, problem)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_a_file_cut_short_anywhere_is_refused(saved, tmp_path):
    for end in itertools.chain(range(0, 60), range(60, len(saved), 97), range(len(saved) - 60, len(saved))):
        refused(tmp_path / "cut.npz", saved[:end])


def test_a_flipped_bit_changes_nothing_or_is_refused(solution, saved, tmp_path):
    path, rng = tmp_path / "flipped.npz", np.random.default_rng(3)
    for at in rng.integers(0, len(saved), 300):
        path.write_bytes(saved[:at] + bytes([saved[at] ^ 1 << int(rng.integers(8))]) + saved[at + 1 :])
        try:
            loaded = ddp.Solution.load(path)
        except ddp.ProblemError:
            continue
        assert np.array_equal(loaded.X, solution.X)
        assert loaded.history == solution.history


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        header("'<f8'", "(2000000000, 2)"),
        header("'<f8'", "(99999999999999999999999, 99999999999999999999999)"),
        header("'<f8'", "(-1, 2)"),
        header("'|O'", "(1,)") + b"cos\nsystem\n(S'echo'\ntR.",
        header("[('a', '<f8')]", "(1,)") + bytes(8),
        header("'<f4'", "(101, 2)") + bytes(808),
        header("'<U999999'", "()"),
        header("(" * 3000 + ")" * 3000, "(1,)"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x07\x00\x10\x00" + bytes(16),
        header("'<f8'", "(101, 2)") + bytes(16),
        header("'<f8'", "(101, 2)") + bytes(5000),
    ],
)
def test_members_that_are_no_arrays_of_a_solution_are_refused(saved, tmp_path, content):
    refused(tmp_path / "other.npz", replaced(saved, "X", content))


def test_a_file_that_unpacks_to_more_than_there_is_room_for_is_refused_before(solution, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 1 << 26)
    size = 3 * archive.LARGEST // 16
    path = tmp_path / "bomb.npz"
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with zipfile.ZipFile(io.BytesIO(saved)) as old, packed as new:
        for info in old.infolist():
            if info.filename == "X.npy":
                with new.open("X.npy", "w", force_zip64=True) as stream:
                    stream.write(header("'<f8'", f"({size}, 2)"))
                    for _ in range(3 * 32):
                        stream.write(bytes(archive.LARGEST // 32))
            else:
                new.writestr(info.filename, old.read(info))
    bomb = path.read_bytes()
    tracemalloc.start()
    try:
        assert "too large" in refused(path, bomb)
        assert "of another problem: expected X of shape (101, 2)" in refused(path, bomb, solution.problem)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(bomb) + 1e7
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "iterations", "long"),
    [
        ("history_hessian", None, np.zeros(2_000_000, "U12")),
        ("history_hessian", 1000, np.zeros(1000, "U1000")),
        ("history_cost", None, np.zeros(2_000_000)),
        ("history_cost", 2_000_000, np.zeros(2_000_000)),
        ("K", None, np.zeros((1_000_000, 1, 2))),
        ("status", None, np.array("x" * 20_000)),
    ],
)
def test_what_contradicts_the_lengths_of_a_file_is_refused_before_it_is_unpacked(
    saved, tmp_path, name, iterations, long
):
    made = io.BytesIO()
    np.lib.format.write_array(made, long)
    content = replaced(saved, name, made.getvalue())
    if iterations is not None:
        made = io.BytesIO()
        np.lib.format.write_array(made, np.array(iterations))
        content = replaced(content, "iterations", made.getvalue())
    tracemalloc.start()
    try:
        refused(tmp_path / "long.npz", content)
        assert tracemalloc.get_traced_memory()[1] < len(content) + 3e6
    finally:
        tracemalloc.stop()


def test_only_members_that_are_known_are_read(solution, saved, tmp_path):
    made = io.BytesIO(saved)
    with zipfile.ZipFile(made, "a") as new:
        new.writestr("signature.npy", b"of something else")
        new.writestr("../../evil", b"elsewhere")
    (tmp_path / "more.npz").write_bytes(made.getvalue())
    assert np.array_equal(ddp.Solution.load(tmp_path / "more.npz", solution.problem).K, solution.K)


def test_what_a_solution_has_gained_since_may_be_missing_from_its_file(saved, tmp_path, monkeypatch):
    from ddp.solutions import columns as module

    path = tmp_path / "old.npz"
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            if info.filename != "violation.npy":
                new.writestr(info.filename, old.read(info))
    with pytest.raises(ddp.ProblemError, match="lacks violation"):
        ddp.Solution.load(path)
    monkeypatch.setattr(module, "_ADDED", {"violation"})
    assert ddp.Solution.load(path).violation == 0.0


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / "swing.npz"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "swing.npz")
    with pytest.raises(ddp.ProblemError, match=r"path: .*swing\.npz"):
        ddp.Solution.load(path)
    with pytest.raises(ddp.ProblemError, match=r"path: .*swing\.npz"):
        ddp.solve(pendulum()).save(path)


def test_columns_may_be_contiguous_and_bytes_in_any_order(solution, saved, tmp_path):
    made = io.BytesIO()
    np.lib.format.write_array(made, np.asfortranarray(solution.X.astype(">f8")))
    (tmp_path / "other.npz").write_bytes(replaced(saved, "X", made.getvalue()))
    loaded = ddp.Solution.load(tmp_path / "other.npz", solution.problem)
    assert np.array_equal(loaded.X, solution.X)
    assert loaded.X.flags.c_contiguous
    assert loaded.X.dtype == np.float64
