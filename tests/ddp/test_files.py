"""Files are written whole or not at all, through links, with the rights they had, and nothing is left behind."""

import os
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import ddp
from ddp import files
from ddp.files import write_atomically

ALONE = f"""
import sys, time, types
sys.modules["ddp"] = types.ModuleType("ddp")
sys.modules["ddp"].__path__ = [{str(Path(files.__file__).parent)!r}]  # without all that it imports
from ddp import files
"""

KILLED = ALONE + """
if sys.argv[2] == "named":
    files.os.path.isdir = lambda path: False
def slowly(stream):
    stream.write(b"x" * 100_000)
    stream.flush()
    print("writing", flush=True)
    time.sleep(60.0)
files.write_atomically(sys.argv[1], slowly)
"""

OFTEN = ALONE + """
if sys.argv[3] == "named":
    files.os.path.isdir = lambda path: False
for _ in range(50):
    files.write_atomically(sys.argv[1], sys.argv[2].encode() * 50_000)
"""


@pytest.fixture(params=["unnamed", "named"])
def way(request, monkeypatch):
    """Systems that can write to files without names, and others."""
    if request.param == "named":
        monkeypatch.delattr(files.os, "O_TMPFILE", raising=False)
    return request.param


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_bytes_text_and_functions_are_written(tmp_path, way):
    path = tmp_path / "file"
    for content in (b"\x00one", "zwölf", lambda stream: stream.write(b"three")):
        assert write_atomically(str(path), content) == path
    assert path.read_bytes() == b"three"
    assert write_atomically(path, "zwölf").read_text(encoding="utf-8") == "zwölf"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_the_rights_of_the_umask_and_old_ones_keep_theirs(tmp_path, way, mask):
    before = os.umask(mask)
    try:
        assert mode(write_atomically(tmp_path / "new", b"")) == 0o666 & ~mask
        (tmp_path / "old").write_text("old")
        (tmp_path / "old").chmod(0o640)
        assert mode(write_atomically(tmp_path / "old", b"new")) == 0o640
    finally:
        os.umask(before)


def test_links_stay_and_their_targets_are_replaced(tmp_path, way):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/target")
    (tmp_path / "second").symlink_to("link")
    for content in (b"made", b"replaced"):
        write_atomically(tmp_path / "second", content)
        assert (tmp_path / "second").is_symlink()
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "target").read_bytes() == content


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: os.mkfifo(path), "a pipe"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
        (lambda path: path.symlink_to(path.name), "symbolic links"),
    ],
)
def test_only_regular_files_are_written(tmp_path, make, named):
    make(tmp_path / "target")
    with pytest.raises(ddp.ProblemError, match=f"path: cannot write .*target: .*{named}"):
        write_atomically(tmp_path / "target", b"content")


@pytest.mark.parametrize("path", [None, 3, "nowhere/file", "with\0null", "", "half\ud800"])
def test_paths_that_make_no_sense_are_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ddp.ProblemError, match="path: "):
        write_atomically(path, b"content")


def test_every_message_about_a_file_can_be_printed(tmp_path):
    assert write_atomically(tmp_path / "byte\udcff", b"content").read_bytes() == b"content"  # any byte may be in a name
    (tmp_path / "folder\udcff").mkdir()
    for attempt in (
        lambda: write_atomically(tmp_path / "folder\udcff", b""),
        lambda: write_atomically(tmp_path / "no\udcff" / "file", b""),
        lambda: write_atomically(tmp_path / "half\ud800", b""),
        lambda: write_atomically(tmp_path / "file", "half \ud800"),
        lambda: ddp.Solution.load(tmp_path / "byte\udcff"),
        lambda: ddp.Solution.load(tmp_path / "none\udcff"),
        lambda: ddp.Solution.load(tmp_path / "half\ud800"),
    ):
        with pytest.raises(ddp.ProblemError) as caught:
            attempt()
        assert "\\ud" in str(caught.value).encode().decode()
    assert set(os.listdir(tmp_path)) == {"byte\udcff", "folder\udcff"}


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, way):
    path = write_atomically(tmp_path / "file", b"old")

    def fails(stream):
        stream.write(b"new")
        stream.flush()
        raise KeyboardInterrupt

    def fills(stream):
        stream.write(b"new")
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fails)
    with pytest.raises(ddp.ProblemError, match=r"cannot write .*file: No space left on device"):
        write_atomically(path, fills)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("where", ["unnamed", "named"])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_process_leaves_goes_with_the_next_write(tmp_path, where, sign):
    write_atomically(tmp_path / "file", b"old")
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "file"), where], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "writing\n"
    meanwhile = set(os.listdir(tmp_path))
    assert meanwhile == {"file"} if where == "unnamed" else len(meanwhile) == 2
    write_atomically(tmp_path / "other", b"")
    assert meanwhile < set(os.listdir(tmp_path)), "what is being written is left alone"
    writer.send_signal(sign)
    writer.communicate()
    assert (tmp_path / "file").read_bytes() == b"old"
    write_atomically(tmp_path / "another", b"")
    assert set(os.listdir(tmp_path)) == {"file", "other", "another"}


def test_writers_at_once_each_write_a_whole_file(tmp_path, way):
    path = tmp_path / "file"
    with ExitStack() as stack:
        writers = []
        for letter in "ABC":
            writer = stack.enter_context(subprocess.Popen([sys.executable, "-c", OFTEN, str(path), letter, way]))
            stack.callback(writer.kill)
            writers.append(writer)
        while any(writer.poll() is None for writer in writers):
            content = path.read_bytes() if path.exists() else b""
            assert len(content) in (0, 50_000)
            assert len(set(content)) <= 1
            write_atomically(path, b"D" * 50_000)
        assert [writer.returncode for writer in writers] == [0] * 3
    assert os.listdir(tmp_path) == ["file"]


def test_another_name_is_taken_where_a_writer_removes_the_first(tmp_path, monkeypatch):
    monkeypatch.delattr(files.os, "O_TMPFILE", raising=False)
    locks = iter([False, True, True])  # the first name is another's to remove, who has not done it yet
    monkeypatch.setattr(files, "_lock", lambda descriptor: next(locks, True))
    path = write_atomically(tmp_path / "file", b"new")
    assert path.read_bytes() == b"new"
