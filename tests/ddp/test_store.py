"""Compiled kernels are kept in a folder of the user's own, whatever others have prepared."""

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from ddp.compiling import store


@pytest.fixture(autouse=True)
def _nothing_remembered():
    store.private_folder.cache_clear()
    yield
    store.private_folder.cache_clear()


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_the_temporary_folder_is_the_users_own(tmp_path):
    folder = store.private_folder(tmp_path)
    assert folder == tmp_path / f"mayne-{os.getuid()}"
    assert mode(folder) == 0o700
    assert store.private_folder(tmp_path) == folder


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, trap):
    expected = tmp_path / f"mayne-{os.getuid()}"
    if trap == "open":
        expected.mkdir()
        expected.chmod(0o777)
    elif trap == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        expected.symlink_to(tmp_path / "theirs")
    else:
        expected.write_text("")
    folder = store.private_folder(tmp_path)
    assert folder != expected
    assert folder.parent == tmp_path
    assert mode(folder) == 0o700


def test_a_user_without_a_home_has_a_cache_too(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MAYNE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(store.tempfile, "gettempdir", lambda: str(tmp_path))
    assert store.cache_directory().parent == tmp_path


@pytest.mark.parametrize("given", ["", "rel", "~/.cache", " "])
def test_a_cache_folder_of_the_user_that_is_not_absolute_counts_as_not_set(tmp_path, monkeypatch, given):
    monkeypatch.delenv("MAYNE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    assert store.cache_directory() == tmp_path / ".cache" / "mayne"
    assert [path.name for path in tmp_path.iterdir()] == [".cache"]


KERNELS = """
from ddp.compiling.kernel import kernel
@kernel
def inner(x):
    return 2.0 * x[1]
@kernel
def asked(x):
    return inner(x) + x[2]
"""

ASKING = "import asking; print(asking.asked(np.arange(3.0)))"

OTHER_USER = 12345


@pytest.fixture
def asking(tmp_path):
    """A folder of kernels."""
    (tmp_path / "asking.py").write_text(KERNELS)
    return tmp_path


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "kernels").glob("*.kernel"))


def test_of_processes_that_start_at_once_one_compiles_each_kernel(fresh, asking):
    begun = [fresh.begin(asking, f"import time\n{ASKING}") for _ in range(4)]
    names: list[str] = []
    for process, output in begun:
        for _ in range(3000):
            if "[" in (said := output.read_text()) or "Error" in said:
                break
            time.sleep(0.02)
        assert said.startswith("4.0\n"), (process, said)
        names += json.loads(said.splitlines()[1])
    assert sorted(names) == ["asked", "inner"]


def test_a_process_that_is_killed_while_it_compiles_keeps_nobody_waiting(fresh, asking):
    slow = "from ddp.compiling import store\nimport time\n"
    slow += "with store.locked(b'k' * 32):\n    print('held', flush=True)\n"
    process, output = fresh.begin(asking, slow + "    time.sleep(60.0)")
    while "held" not in output.read_text():
        time.sleep(0.02)
    waiting = "from ddp.compiling import store\nstore.PATIENCE = {}\n"
    waiting += "with store.locked(b'k' * 32):\n    print('done')"
    assert fresh.run(asking, waiting.format(0.1))[0] == ["done"], "patience ends"
    os.kill(process, signal.SIGKILL)
    start = time.monotonic()
    assert fresh.run(asking, waiting.format(60.0))[0] == ["done"]
    assert time.monotonic() - start < 30.0


def test_a_folder_that_can_only_be_read_serves(fresh, asking, tmp_path):
    cache = tmp_path / "cache"
    (tmp_path / "tmp").mkdir()
    assert fresh.run(asking, ASKING)[1] == ["asked", "inner"]
    before = kept(cache)
    for path in [*before, cache / "kernels"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    read_only = f"import os, tempfile\ntempfile.tempdir = {str(tmp_path / 'tmp')!r}\n"
    read_only += "os.access = lambda path, mode: not mode & os.W_OK\n"  # root may write everywhere
    assert fresh.run(asking, read_only + ASKING, level="WARNING") == (["4.0"], [])
    (cache / "kernels").chmod(0o755)
    for path in before:
        path.unlink()
    (cache / "kernels").chmod(0o555)
    assert fresh.run(asking, read_only + ASKING, level="WARNING") == (["4.0"], ["asked", "inner"])
    assert fresh.run(asking, read_only + ASKING) == (["4.0"], [])
    assert kept(cache) == []
    (cache / "kernels").chmod(0o755)


@pytest.mark.parametrize("trap", ["theirs", "open", "a file", "nowhere"])
def test_what_others_can_write_to_is_not_run(fresh, asking, tmp_path, trap):
    cache = tmp_path / "cache"
    if trap in ("theirs", "open"):
        assert fresh.run(asking, ASKING)[1] == ["asked", "inner"]
    (tmp_path / "tmp").mkdir()
    program = f"import os, tempfile\ntempfile.tempdir = {str(tmp_path / 'tmp')!r}\n{ASKING}"
    if trap == "theirs" and os.getuid() == 0:
        os.chown(cache, OTHER_USER, OTHER_USER)
    elif trap == "theirs":
        program = program.replace("os, tempfile\n", f"os, tempfile\nos.getuid = lambda: {OTHER_USER}\n")
    elif trap == "open":
        (cache / "kernels").chmod(0o777)
    else:
        cache = tmp_path / "other"
        cache.write_text("") if trap == "a file" else cache.symlink_to("/proc/nothing")
    said, names = fresh.run(asking, program, cache, level="WARNING")
    assert (said[-1], names) == ("4.0", ["asked", "inner"])
    assert len(said) == 2
    assert "does not serve as a cache" in said[0]
    assert str(cache) in said[0]


@pytest.mark.parametrize(
    ("owner", "rights", "trusted"),
    [
        (1000, 0o644, True), (1000, 0o664, True), (1000, 0o646, False),
        (0, 0o644, True), (0, 0o664, False), (0, 0o646, False),
        (1001, 0o644, False), (1001, 0o600, False),
    ],
)  # fmt: skip
def test_files_are_run_that_only_this_user_and_root_can_have_written(monkeypatch, owner, rights, trusted):
    monkeypatch.setattr(store.os, "getuid", lambda: 1000)
    there = os.stat_result((stat.S_IFREG | rights, 1, 1, 1, owner, 1000, 0, 0, 0, 0))
    assert (store._distrust(there) is None) == trusted


def test_a_full_disk_keeps_nothing_and_ends_nothing(fresh, asking, tmp_path):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    assert fresh.run(asking, full + ASKING) == (["4.0"], ["asked", "inner"])
    assert all(path.stat().st_size <= 4096 for path in kept(tmp_path / "cache"))
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_a_key_that_is_another_ones_is_not_found(tmp_path, monkeypatch):
    monkeypatch.setenv("MAYNE_CACHE_DIR", str(tmp_path))
    key, other = b"k" * 32, b"o" * 32
    store.save("a <name> / of", key, b"content")
    assert store.load("a <name> / of", key) == b"content"
    assert store.load("a <name> / of", other) is None
    (path,) = kept(tmp_path)
    path.rename(path.with_name(store._file("a <name> / of", other)))
    assert store.load("a <name> / of", other) is None
    assert store.kept()[:2] == (tmp_path / "kernels", 1)
    store.forget()
    assert kept(tmp_path) == []
