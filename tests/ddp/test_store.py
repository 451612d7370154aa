"""Where compiled kernels are kept: in a folder of the user's own, whatever others have prepared."""

import os
import stat
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
