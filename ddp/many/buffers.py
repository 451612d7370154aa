"""Buffers of results: rows of many solves wait there until all have come, in memory or in files that outlast it."""

import hashlib
import io
import mmap
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError, affordable
from ddp.files import lock, remove_left, shown, write_atomically
from ddp.many.rows import Rows, unwritten_rows

SLOTS, SLOT, FEWEST = 1 << 12, 1 << 24, 128
"""Slots of shared memory, and the least bytes and rows that each has room for."""

KEPT = 1 << 27
"""Bytes of shared memory, at most, that the next batch finds as it was left."""


class Shared(NamedTuple):
    """Nameless memory of one process in slots, as others of its machine open it: it leaves no file behind.

    Before the slots is a byte of each: whether it is taken. Slots serve again once their rows are where they belong,
    those first that a process has written to: fresh pages of shared memory cost several times what copying does.

    path: of that memory among the open files of its process.   target: of the link there, which tells it from others.
    size: bytes of a slot.
    """

    path: str
    target: str
    size: int

    def take(self, size: int) -> tuple[int, NDArray[np.uint8]]:
        """Take a free slot: its number, -1 if there is none, and so many bytes of it."""
        nothing = np.zeros(0, np.uint8)
        try:
            if size > self.size or os.readlink(self.path) != self.target:
                return -1, nothing
            with open(self.path, "r+b", buffering=0) as file:
                memory, known = _mapped.get(self.target) or (mmap.mmap(file.fileno(), 0), [])
                lock(file)
                slot = next((one for one in known if not memory[one]), memory.find(b"\0", 0, SLOTS))
                begin = SLOTS + slot * self.size
                if slot >= 0:
                    os.posix_fallocate(file.fileno(), begin, size)  # a page that cannot be had would end the process
                    memory[slot] = 1
                lock(file, False)  # a mapping keeps the file open, and with it the lock
        except OSError:  # there is no such memory here, or it has no room
            return -1, nothing
        if slot < 0:
            return -1, nothing
        if self.target not in _mapped:
            _mapped.clear()
            _mapped[self.target] = memory, known
        if slot not in known:
            known.append(slot)
        return slot, np.frombuffer(memory, np.uint8, size, begin)


_mapped: dict[str, tuple[mmap.mmap, list[int]]] = {}
"""Memory that this process has written to last, by its target, and the slots."""


class Slots:
    """Shared memory of this process, and how others find it."""

    def __init__(self, size: int) -> None:
        name, self._owner = f"mayne-{secrets.token_hex(8)}", os.getpid()
        self._file = os.memfd_create(name)
        try:
            os.truncate(self._file, SLOTS * (1 + size))
            self.memory = mmap.mmap(self._file, 0)
        except OSError:  # limits of files or of address space
            os.close(self._file)
            raise
        self.outlet = Shared(f"/proc/{self._owner}/fd/{self._file}", f"/memfd:{name} (deleted)", size)

    @classmethod
    def of(cls, size: int) -> "Slots":
        """Slots of at least so many bytes: those of an earlier batch, or new ones."""
        while _idle:
            with suppress(IndexError):  # another thread has taken them
                slots = _idle.pop()
                if slots.outlet.size >= size and slots._owner == os.getpid():
                    return slots
                slots._close()
        return cls(size)

    def give_back(self) -> None:
        """Let the next batch have them, unless they are many, or some of a worker that has died are taken."""
        if _idle or self.memory.find(b"\1", 0, SLOTS) >= 0 or 512 * os.fstat(self._file).st_blocks > KEPT:
            self._close()
        else:
            _idle.append(self)

    def _close(self) -> None:
        """Let nobody open the memory any more, and free it, though others have it mapped."""
        if self._owner == os.getpid():  # a fork may have another file by that number
            self.memory.madvise(mmap.MADV_REMOVE)
            os.close(self._file)


_idle: list[Slots] = []
"""Slots that no batch uses: one, or none."""


class Folder(NamedTuple):
    """Folder of parts, and the sign of the batch that they are of: hexadecimal digits."""

    path: Path
    sign: str


Outlet: TypeAlias = "Shared | Folder | None"
"""Place where workers put rows: shared memory, a folder of parts; None: they send them."""


class Memory:
    """Rows in one array, and memory through which other processes hand theirs over.

    done (M,): which rows there are; the others hold nothing yet.   policies: those of anchors, by row.
    inside: rows (M,) that threads of this process write to themselves.
    """

    def __init__(self, count: int, kind: np.dtype[np.void]) -> None:
        affordable("over", count, count * kind.itemsize // 8)
        self.rows = self.inside = unwritten_rows(count, kind)
        self._slots: Slots | None = None
        self.done = np.zeros(count, dtype=bool)
        self.policies: dict[int, np.void] = {}

    @property
    def outlet(self) -> Outlet:
        """Shared memory; None where the system has none of this kind."""
        if self._slots is None and hasattr(os, "memfd_create"):
            with suppress(OSError):  # then they are sent
                self._slots = Slots.of(max(SLOT, FEWEST * self.rows.itemsize))
        return None if self._slots is None else self._slots.outlet

    def put(self, rows: Rows, policies: Rows) -> None:
        """Keep rows."""
        self.rows[rows["row"]] = rows
        self.adopt(rows["row"], policies)

    def adopt(self, numbers: NDArray[np.int64], policies: Rows, slot: int = -1, anchors: int = 0) -> None:
        """Know of rows that are in their places, or bring them, and policies of anchors, there from a slot."""
        if slot >= 0:
            assert self._slots is not None
            memory, begin = self._slots.memory, SLOTS + slot * self._slots.outlet.size
            self.rows[numbers] = np.frombuffer(memory, self.rows.dtype, len(numbers), begin)
            begin += len(numbers) * self.rows.itemsize
            policies = np.frombuffer(memory, policies.dtype, anchors, begin).copy()
            memory[slot] = 0
        self.done[numbers] = True
        self.policies.update(zip(policies["row"].tolist(), policies, strict=True))

    def known(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A number of some rows that are there, by its name."""
        return np.asarray(self.rows[name][rows])

    def settle(self) -> None:
        """Do nothing: rows are where they belong."""

    def close(self) -> None:
        """Let go of shared memory."""
        if self._slots is not None:
            self._slots.give_back()
            self._slots = None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Have errors of writing name the argument, and say that nothing is lost."""
    try:
        yield
    except (OSError, ProblemError) as reason:
        told = str(reason).removeprefix("path: ")
        if told.startswith("into: "):  # of a store that is damaged, from which nothing goes on
            raise
        if isinstance(reason, OSError):
            told = f"cannot write {shown(path)}: {reason.strerror or reason}"
        raise ProblemError(f"into: {told}; what was solved is kept, and the same call goes on from there") from None


DIGEST = 32
"""Bytes of a digest, with which files of parts end."""

KNOWN = ["row", "cost", "converged", "start"]
"""Numbers of rows in files that are known without opening them."""


class Parts:
    """Files of finished rows in a folder, each written whole; the policies that belong to them are there before.

    Names of files have the batch's sign, so that those of another one, whose store is gone, are not taken for its own.
    There may be more files than a process can have open: none stays so.
    """

    def __init__(self, own: Folder) -> None:
        self.own, (self.folder, self._sign) = own, own
        self._names = re.compile(rf"rows-{self._sign}-[0-9a-f]{{16}}\.npy")
        self._parts: dict[Path, Rows] = {}

    def scan(self) -> None:
        """Look which files there are. Those that cannot be read, as after a power cut, are not there."""
        paths = sorted(self.folder.glob("*.npy"))
        lost = {path.name for path in paths if path.name.startswith("policies") and _read(path) is None}
        names = [path for path in paths if self._names.fullmatch(path.name) and _of_policies(path).name not in lost]
        parts = {path: self._parts[path] if path in self._parts else _known(path) for path in names}
        self._parts = {path: part for path, part in parts.items() if part is not None}

    def put(self, rows: Rows, policies: Rows) -> None:
        """Write a file of rows."""
        path = self._path(rows["row"])
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if len(policies):
                _write(_of_policies(path), policies)
            _write(path, rows)

    def _path(self, numbers: NDArray[np.int64]) -> Path:
        """File of some rows."""
        digest = hashlib.sha256(np.asarray(numbers).tobytes()).hexdigest()[:16]
        return self.folder / f"rows-{self._sign}-{digest}.npy"

    def adopt(self, numbers: NDArray[np.int64]) -> bool:
        """Know of a file that has been written. Returns whether it is there."""
        path = self._path(numbers)
        with writing(self.folder):
            part = _known(path)
        if part is not None:
            self._parts[path] = part
        return part is not None

    def policies_with(self, numbers: NDArray[np.int64]) -> Rows | None:
        """Policies that were written with some rows; None if they are not there."""
        part = _read(_of_policies(self._path(numbers)))
        return None if part is None else np.array(part)

    def there(self) -> Iterable[NDArray[np.int64]]:
        """Indices of the rows of each file."""
        return [part["row"] for part in self._parts.values()]

    def policies(self) -> dict[int, np.void]:
        """All policies."""
        found: dict[int, np.void] = {}
        for path in sorted(self.folder.glob(f"policies-{self._sign}-*.npy")):
            if (part := _read(path)) is not None:
                found.update(zip(part["row"].tolist(), np.array(part), strict=True))
        return found

    def gathered(self, start: int, stop: int, kind: np.dtype[np.void]) -> Rows:
        """The rows start .. stop-1, all of which are there."""
        rows = np.zeros(stop - start, kind)
        for path, part in self._parts.items():
            numbers = part["row"]
            mine = np.flatnonzero((numbers >= start) & (numbers < stop))
            if len(mine):
                rows[numbers[mine] - start] = _opened(path)[mine]
        return rows

    def known(self, name: str) -> Iterable[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Indices of the rows of each file, and a number of theirs by its name, of `KNOWN`."""
        return [(part["row"], part[name]) for part in self._parts.values()]

    def drop(self, settled: NDArray[np.bool_]) -> None:
        """Remove files all of whose rows are settled elsewhere."""
        for path, part in list(self._parts.items()):
            if settled[part["row"]].all():
                del self._parts[path]
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        self._parts = {}
        if self.folder.is_dir():
            remove_left(self.folder)
            for path in [*self.folder.glob("rows-*.npy"), *self.folder.glob("policies-*.npy"), self.folder / "lock"]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # another process has rows that it did not know to be settled
                self.folder.rmdir()


def _of_policies(path: Path) -> Path:
    """File of the policies that belong to a file of rows."""
    return path.with_name(path.name.replace("rows", "policies"))


def _read(path: Path) -> Rows | None:
    """Rows of a file, which stays open; None if there is none, or it is not as it was written."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[:-DIGEST]).digest() != content[-DIGEST:]:
            return None
        return _opened(path)
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise ProblemError(f"path: cannot read {shown(path)}: {reason.strerror or reason}") from None


def _opened(path: Path) -> Rows:
    """Rows of a file that is there."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _known(path: Path) -> Rows | None:
    """Copy of what is `KNOWN` of a file's rows; None where `_read` has none."""
    part = _read(path)
    return None if part is None else np.array(part[KNOWN], [(name, part.dtype[name]) for name in KNOWN])


def _write(path: Path, rows: Rows) -> None:
    """Write a .npy file whole or not at all, and a digest behind it: a power cut may leave zeros, as nothing waits."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(rows))
    stream.write(rows.tobytes())
    content = stream.getbuffer()
    write_atomically(path, lambda file: file.writelines([content, hashlib.sha256(content).digest()]), of_many=True)
