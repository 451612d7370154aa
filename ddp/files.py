"""Writing files: whole or not at all, whoever reads them meanwhile and whatever ends the process.

A file is written under no name where the system can do that (Linux's O_TMPFILE), else under a hidden one beside its
target, and takes its target's place in one step. A hidden file that a killed process has left is told by its lock,
which died with that process, and removed by whoever writes into the folder next.
"""

import csv
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

from ddp.errors import ProblemError, said

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed, and shards settle one after the other
    fcntl = None  # type: ignore[assignment]

Content = bytes | str | Callable[[BinaryIO], object]

_LEFT = re.compile(r"\.mayne-[0-9a-f]{16}\.part")
"""Names of files that are being written, or were when their process was killed."""

_LONGEST, _LONGEST_NAME = 4096, 255
"""Characters of a path, and of a name in it, that systems take at most."""

FORMATS = {
    ".csv", ".h5", ".hdf5", ".json", ".mat", ".nc", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".toml", ".txt",
    ".xlsx", ".xml", ".yaml", ".yml", ".zarr", ".zip",
}  # fmt: skip
"""Ends of names that promise a format."""

_READABLE = 0o666
"""The rights of a new file, less what the umask takes."""


def write_atomically(path: str | os.PathLike[str], content: Content, of_many: bool = False) -> Path:
    """Write a file completely, or leave what is there as it is.

    content: bytes, text (UTF-8), or a function that writes to the binary stream it is given.
    of_many: whether it is one of hundreds whose loss is no harm, as in a cache. Then this neither waits until the disk
        has it nor calls `remove_left`.

    A link is followed: it stays, and its target is replaced. A file that is there keeps its rights and, where the
    system allows it, its owner; a new one gets the rights that the umask leaves.
    Returns the path as it was given. Raises ProblemError for whatever is no regular file (a folder, a pipe, a device)
    or cannot be written: no folder, no right to, no space left.
    """
    given = as_path(path)
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError as reason:
            told = said(content[reason.start : reason.end])
            raise ProblemError(f"content: expected text that can be written, it holds {told}") from None
    try:
        target = Path(os.path.realpath(given))
        there = _regular(given, target)
        if not of_many:
            remove_left(target.parent)
        _replace(target, there, content, durable=not of_many)
    except OSError as reason:
        raise ProblemError(f"path: cannot write {shown(given)}: {reason.strerror or reason}") from None
    return given


def write_table(path: str | os.PathLike[str], header: Iterable[str], rows: Iterable[Iterable[float]]) -> Path:
    """Write numbers under a header (.csv), which read back as they were; nothing stands for NaN."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if number != number else repr(number) for number in row] for row in rows])
    return write_atomically(path, stream.getvalue())


def lock(file: IO[bytes], held: bool = True) -> None:
    """Hold a file's lock, or let it go, where the system has such."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX if held else fcntl.LOCK_UN)


def remove_left(folder: Path) -> None:
    """Remove what killed processes have left in a folder: files of `write_atomically` that nobody holds a lock on."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left(Path(entry.path))


def as_path_of(suffix: str, path: str | os.PathLike[str], field: str = "path") -> Path:
    """`as_path`, for what is always written in one format: ProblemError for a name that promises another one."""
    given = as_path(path, field)
    if not given.name or given.suffix.lower() in FORMATS - {suffix}:
        raise ProblemError(f"{field}: expected a name that ends with {suffix}, got {shown(given)}")
    return given


def as_target(path: str | os.PathLike[str], suffixes: Sequence[str] = (), field: str = "path") -> Path:
    """`as_path` of a file to write, of one of some kinds: ProblemError for others, and without a folder to hold it."""
    target = as_path(path, field)
    if suffixes and target.suffix.lower() not in suffixes:
        kinds = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise ProblemError(f"{field}: expected {kinds}, got {said(str(path))}")
    if not target.parent.is_dir():
        raise ProblemError(f"{field}: expected a file in an existing folder, got {said(str(path))}")
    return target


def as_path(path: str | os.PathLike[str], field: str = "path") -> Path:
    """The path of a file, as given. Raises ProblemError, naming ``field``, for what no file can be called."""
    try:
        given = Path(path)
    except TypeError:
        raise ProblemError(f"{field}: expected the path of a file, got {said(path)}") from None
    try:
        os.fsencode(given)
    except UnicodeEncodeError:  # halves of surrogate pairs, or letters that the system's encoding lacks
        raise ProblemError(f"{field}: expected the path of a file, got {said(str(given))}") from None
    if "\0" in str(given) or len(str(given)) > _LONGEST or any(len(part) > _LONGEST_NAME for part in given.parts):
        raise ProblemError(f"{field}: expected the path of a file, got {said(str(given))}")
    return given


def shown(path: Path) -> str:
    """A path as errors quote it: bytes that are no text are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def _regular(given: Path, target: Path) -> os.stat_result | None:
    """State of the target: a regular file that may be written to, or nothing yet."""
    try:
        there = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(there.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(there.st_mode), "a device")
        raise ProblemError(f"path: cannot write {shown(given)}: expected a regular file or none, this is {kind}")
    if not os.access(target, os.W_OK):
        raise ProblemError(f"path: cannot write {shown(given)}: permission is denied")
    return there


def _replace(
    target: Path, there: os.stat_result | None, content: bytes | Callable[[BinaryIO], object], durable: bool
) -> None:
    descriptor, part, is_named = _open(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if callable(content):
                content(stream)
            else:
                stream.write(content)
            stream.flush()
            if there is not None:
                with suppress(OSError):
                    os.fchown(descriptor, there.st_uid, there.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(there.st_mode))
            if durable:
                os.fsync(descriptor)
            if not is_named:
                # given a folder, Python follows the link to the file; the path is absolute
                os.link(f"/proc/self/fd/{descriptor}", part, src_dir_fd=descriptor, follow_symlinks=True)
                is_named = True
            os.replace(part, target)
            is_named = False
    finally:
        if is_named:
            with suppress(OSError):
                part.unlink()


def _open(folder: Path) -> tuple[int, Path, bool]:
    """A new file that this process holds a lock on, its hidden name, and whether it has that name already."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # a file system without
            descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, _READABLE)
            _lock(descriptor)
            return descriptor, _hidden(folder), False
    while True:
        part = _hidden(folder)
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, _READABLE)
        if _lock(descriptor) is not False and part.exists():
            return descriptor, part, True
        os.close(descriptor)  # another writer took it for left before it was locked, and removes it: take another name


def _hidden(folder: Path) -> Path:
    return folder / f".mayne-{secrets.token_hex(8)}.part"


def _lock(descriptor: int) -> bool | None:
    """Lock a file for as long as it is open: whether that was possible; None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_if_left(part: Path) -> None:
    descriptor = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if _lock(descriptor):
            part.unlink()
    finally:
        os.close(descriptor)
