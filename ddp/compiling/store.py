"""Store of compiled kernels: one file each, named by its kernel and its key, that proves itself when it is read.

A file is a mark, a digest of all that follows, the key and the content. What is not what it was when it was written, or
is under the name of something else, counts as not there. Whatever goes wrong with a file is logged, and the kernel is
compiled: the store can be slow or empty, never wrong, and nothing that it does raises.

What is read is code, and is run. So a folder serves only if it belongs to this user or to root and nobody else can
write to it, and so does a file in it, except that a group may write to what is this user's own.
"""

import hashlib
import logging
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ddp.errors import ProblemError
from ddp.files import remove_left, write_atomically

try:
    import fcntl
except ImportError:  # Windows: processes that start at once compile the same kernels
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("mayne")

FOLDER = "kernels"
"""The folder of kernels in the cache folder."""

MARK = b"mayne kernel 1\n"

SUFFIX = ".kernel"

PATIENCE = 300.0
"""Time that a process waits for another one that compiles the same kernel [s], before it compiles it as well."""

SLOTS = 1 << 40
"""Bytes of the file of locks, none of them written, of which a kernel's is locked."""


def cache_directory() -> Path:
    """Folder of compiled kernels: MAYNE_CACHE_DIR, else the user's cache folder, else a temporary one.

    An XDG_CACHE_HOME that is not absolute counts as not set, as its specification has it.
    """
    chosen = os.environ.get("MAYNE_CACHE_DIR")
    if chosen:
        return _absolute(chosen)
    try:
        given = os.environ.get("XDG_CACHE_HOME", "")
        home = (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "mayne"
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK | os.X_OK):
            return home
    except (OSError, RuntimeError) as reason:  # RuntimeError: the user has no home
        logger.info("%s: kernels are cached in a temporary folder", reason)
    return private_folder(Path(tempfile.gettempdir()))


@cache
def _absolute(chosen: str) -> Path:
    """Path as it was when it was first asked for: working directories change."""
    return Path(chosen).absolute()


@cache
def private_folder(parent: Path) -> Path:
    """A folder in ``parent`` that nobody else can write to: what is cached is code, and is run when it is read."""
    if sys.platform == "win32":  # where temporary folders are private
        return parent / "mayne"
    folder = parent / f"mayne-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    except OSError as reason:
        logger.info("%s", reason)
    return Path(tempfile.mkdtemp(prefix="mayne-", dir=parent))


@cache
def folders(chosen: Path) -> tuple[Path, ...]:
    """Folders of kernels: the chosen one's, and a private one if it does not serve. New ones are kept in the last.

    A folder that does not exist is made. One that can be read alone serves those who read, and the private one those
    who compile.
    """
    found: list[Path] = []
    reason = "it cannot be written to"
    try:
        kernels = chosen / FOLDER
        kernels.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as failure:
        reason = failure.strerror or str(failure)
    with suppress(OSError):
        distrust = next((told for folder in (chosen, chosen / FOLDER) if (told := _distrust(folder.stat()))), None)
        if distrust is None:
            found.append(chosen / FOLDER)
            if os.access(found[0], os.W_OK | os.X_OK):
                return tuple(found)
        else:
            reason = distrust
    private = private_folder(Path(tempfile.gettempdir())) / FOLDER
    level = logging.INFO if found else logging.WARNING  # of images and shared folders, reading is what they are for
    logger.log(level, "%s does not serve as a cache (%s): new kernels are kept in %s", chosen, reason, private)
    with suppress(OSError):
        private.mkdir(mode=0o700, exist_ok=True)
    return *found, private


def _distrust(there: os.stat_result) -> str | None:
    """Why code is not run that somebody may have put there; None if only this user and root could."""
    if not hasattr(os, "getuid"):
        return None
    if there.st_uid not in (os.getuid(), 0):
        return f"it belongs to user {there.st_uid}"
    others = stat.S_IWOTH if there.st_uid == os.getuid() else stat.S_IWOTH | stat.S_IWGRP
    return "others can write to it" if there.st_mode & others else None


def load(name: str, key: bytes) -> bytes | None:
    """Load the file of a key; None if there is none, or none that can be trusted."""
    for folder in folders(cache_directory()):
        path = folder / _file(name, key)
        try:
            content = _read(path)
        except FileNotFoundError:
            continue
        except OSError as reason:
            logger.info("the cached kernel %s cannot be read (%s)", path, reason)
            continue
        begin = len(MARK)
        body = content[begin + 32 :]
        if content[:begin] != MARK or hashlib.sha256(body).digest() != content[begin : begin + 32]:
            logger.info("the cached kernel %s is damaged", path)
        elif body[:32] != key:
            logger.info("the cached kernel %s is another one", path)
        else:
            return body[32:]
    return None


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode):
            raise OSError("it is no regular file")
        if distrust := _distrust(there):
            raise OSError(distrust)
        return stream.read()


def save(name: str, key: bytes, content: bytes) -> None:
    """Keep something under a key, as well as that goes."""
    folder = folders(cache_directory())[-1]
    body = key + content
    try:
        _tidy(folder)
        path = folder / _file(name, key)
        path.unlink(missing_ok=True)  # nobody's rights, and no link, are to be kept
        write_atomically(path, MARK + hashlib.sha256(body).digest() + body, of_many=True)
    except (ProblemError, OSError) as reason:
        _lament(folder, str(reason))


@cache
def _tidy(folder: Path) -> None:
    """Once a process."""
    remove_left(folder)


@cache
def _lament(folder: Path, reason: str) -> None:
    logger.info("compiled kernels are not kept in %s: %s", folder, reason)


def kept() -> tuple[Path, int, int]:
    """Folder of new kernels, their number, and their bytes."""
    folder = folders(cache_directory())[-1]
    sizes = []
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            sizes.append(path.lstat().st_size)
    return folder, len(sizes), sum(sizes)


def forget() -> None:
    """Remove all of them."""
    for path in folders(cache_directory())[-1].glob(f"*{SUFFIX}"):
        with suppress(OSError):
            path.unlink()


def _file(name: str, key: bytes) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '_', name)[-80:]}-{key.hex()[:40]}{SUFFIX}"


@contextmanager
def locked(key: bytes) -> Iterator[None]:
    """Wait until no other process is within this block for the same key.

    The lock is on a byte of a file, and ends with the process that holds it. Where files cannot be locked, or the other
    one does not come to an end, nobody waits.
    """
    descriptor = _locks(folders(cache_directory())[-1], os.getpid())
    if descriptor is None or fcntl is None:
        yield
        return
    place = int.from_bytes(key[:8], "big") % SLOTS
    until, pause, got = time.monotonic() + PATIENCE, 0.002, False
    while not got and time.monotonic() < until:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            got = True
        except (BlockingIOError, PermissionError):
            time.sleep(pause)
            pause = min(1.5 * pause, 0.1)
        except OSError:
            break
    try:
        yield
    finally:
        if got:
            with suppress(OSError):
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)


@cache
def _locks(folder: Path, process: int) -> int | None:
    """The file of locks, open for as long as the process lives: closing it would end all of them."""
    try:
        return os.open(folder / "locks", os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:
        return None
