"""Stores of many solves: one zarr group (version 3 of its format), which resumes after whatever ended the process.

Every number of a row is an array of the group, with samples along its first axis in the order of ``over``, and so are
the numbers that vary, as ``over.<place>``; coordinates of axes are sample numbers, times of knots [s], names of states
and of controls, as arrays by the names of axes. Until all rows of a chunk are there, they wait in ``<store>.parts``;
then the chunk is written, file by file under other names that are changed, and marked in ``done`` last. Every chunk
ends with its checksum, and has a file though all in it is zero, so that lost files are known.
"""

import errno
import glob
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.files import as_path_of, lock, shown
from ddp.many.buffers import Folder, Parts, writing
from ddp.many.identity import difference, digest
from ddp.many.rows import SCALARS, Rows, as_texts
from ddp.protocols import Array

logger = logging.getLogger("mayne")

FORMAT, VERSION, OLDEST = "mayne batch", 4, 3
"""Sign of stores, the version that is made, and the oldest one that is read, and resumed as what it is.

From version 4 on all chunks have files, also those of zeros alone, so that a missing file is a lost one. Programs that
do not write these refuse such stores.
"""

CHUNK = 1 << 22
"""Bytes of the largest array of a chunk, about."""

IDENTITY = {"problem": "is of another problem", "over": "has other samples", "plan": "is of another plan"}
"""Attributes that tell batches apart, and what a store is where they differ."""

NAMED = {"given": "the solution that solves start from"}
"""Words for attributes whose names do not say what differs."""

DIMENSIONS = {
    "X": ("state_knot", "state"), "U": ("knot", "control"), "k": ("knot", "control"),
    "K": ("knot", "control", "tangent"), "multipliers": ("multiplier",), "penalties": ("constraint",),
}  # fmt: skip
"""Names of the axes of arrays, after that of samples."""

TEXTS = "sentence", "kind"
"""Strings, where all else are numbers."""


def zarr_or_refuse(field: str = "into") -> Any:
    """The library, or ProblemError that says how to get it."""
    try:
        import zarr
    except ImportError:
        raise ProblemError(f"{field}: expected zarr, got none: `pip install zarr`, or the extra mayne[batch]") from None
    return zarr


class Store:
    """A group and the rows on their way into it; members as of `buffers.Memory`, no rows being in memory."""

    inside = None

    def __init__(
        self, path: str | os.PathLike[str], kind: np.dtype[np.void], arrays: Mapping[str, Array],
        attributes: dict[str, Any], axes: Mapping[str, Any],
    ) -> None:  # fmt: skip
        zarr = zarr_or_refuse()
        self.path, self._kind = as_path_of(".zarr", path, "into"), kind
        self._count = len(next(iter(arrays.values())))
        self.chunk = chunk_rows(kind, self._count)
        if not self.path.exists():
            self._check_room()
            self._create(zarr, arrays, attributes, axes)
        self.group = opened(self.path)
        with reading(self.path, "into"):
            self._check(attributes)
            self._settled = self._marked()
        self.parts = Parts(_parts_of(self.group))
        for begun in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.new"):  # by processes that were killed
            shutil.rmtree(begun, ignore_errors=True)
        with self._alone():
            for left in self.path.rglob("*.partial"):  # zarr's names of files that killed processes were writing
                left.unlink(missing_ok=True)
            self._scan()

    def _marked(self) -> NDArray[np.bool_]:
        """Which rows are in chunks that are written (M,)."""
        return np.asarray(Kept(self.group, "done", "into")[:], bool)

    def _scan(self) -> None:
        self.parts.scan()
        self.done = self._settled.copy()
        for rows in self.parts.there():
            self.done[rows] = True
        self.policies = self.parts.policies()

    def _check_room(self) -> None:
        """Raise ProblemError if the disk is too small."""
        try:
            folder = self.path.absolute().parent
        except OSError as reason:  # of a working folder that has been removed
            raise ProblemError(f"into: cannot write {shown(self.path)}: {reason.strerror}") from None
        if not folder.is_dir():
            raise ProblemError(f"into: cannot write {shown(self.path)}: there is no folder {shown(folder)}")
        needed, free = self._count * self._kind.itemsize, shutil.disk_usage(folder).free
        if needed > free:
            raise ProblemError(
                f"into: {self._count} solves of {self._kind.itemsize / 1e3:.3g} kB need {needed / 1e9:.3g} GB,"
                f" there are {free / 1e9:.3g} GB; keep fewer arrays, or dtype='float32'"
            )

    def _create(
        self, zarr: Any, arrays: Mapping[str, Array], attributes: dict[str, Any], coordinates: Mapping[str, Any]
    ) -> None:
        """Make the group without rows, beside its place first."""
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        shutil.rmtree(beside, ignore_errors=True)
        try:
            texts = {name: one if isinstance(one, (str, int)) else json.dumps(one) for name, one in attributes.items()}
            group = zarr.open_group(str(beside), mode="w", zarr_format=3, attributes=texts)
            checked = [zarr.codecs.Crc32cCodec()]
            small = [zarr.codecs.ZstdCodec(), *checked]
            whole = [(name, values, [name]) for name, values in coordinates.items()]
            for name, values in arrays.items():
                axes = ["sample", *(f"{name} axis {i}" for i in range(1, values.ndim))]
                whole.append((f"over.{name}", values, axes))
            for name, values, axes in whole:
                sizes = tuple(max(size, 1) for size in np.shape(values))
                group.create_array(
                    name, data=values, chunks=sizes, dimension_names=axes, compressors=small,
                    config={"write_empty_chunks": True},
                )  # fmt: skip
            for name, number, *shape in (*self._kind.descr, ("done", "|b1")):
                if name == "row":
                    continue
                sizes = shape[0] if shape else ()
                group.create_array(
                    name, shape=(self._count, *sizes), chunks=(self.chunk, *sizes),
                    dimension_names=["sample", *DIMENSIONS.get(name, ())],
                    fill_value="" if name in TEXTS else np.nan if "f" in number else 0,  # read where a file is lost
                    compressors=checked if name in DIMENSIONS else small,
                    dtype=str if name in TEXTS else np.dtype(number),
                )  # fmt: skip
            os.rename(beside, self.path)
        except Exception as reason:
            if self.path.exists():  # another shard was faster, and has removed this one's
                return
            if not isinstance(reason, OSError):
                raise
            raise ProblemError(f"into: cannot write {shown(self.path)}: {reason.strerror or reason}") from None
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _check(self, attributes: dict[str, Any]) -> None:
        """Raise ProblemError that names what differs, if the store is of another batch."""
        for name, what in IDENTITY.items():
            if told := difference(_flat(attributes[name]), _flat(attribute(self.group, name))):
                verb = "differ" if "," in told else "differs"
                raise ProblemError(f"into: {shown(self.path)} {what}: {told} {verb}; remove it, or give another name")
        if told := difference(attributes["versions"], attribute(self.group, "versions")):
            logger.warning("%s was begun with other versions of %s: results may differ by rounding", self.path, told)

    def put(self, rows: Rows, policies: Rows) -> None:
        """Keep rows."""
        self.parts.put(rows, policies)
        self.adopt(rows["row"], policies)

    @property
    def outlet(self) -> Folder:
        """Folder of parts, which processes of this machine write themselves."""
        return self.parts.own

    def adopt(self, numbers: NDArray[np.int64], policies: Rows, slot: int = -1, anchors: int = 0) -> None:
        """Know of rows that are in a part, and write the chunks that are whole."""
        there = self.parts.adopt(numbers)
        if anchors:
            found = self.parts.policies_with(numbers)
            policies, there = (policies, False) if found is None else (found, there)
        if not there:  # another process that has solved them, too, has settled and removed them
            self._settled = self._marked()
            if not self._settled[numbers].all():
                raise ProblemError(f"into: rows that were written to {shown(self.parts.folder)} are not there any more")
        self.done[numbers] = True
        self.policies.update(zip(policies["row"].tolist(), policies, strict=True))
        touched = sorted({int(row) // self.chunk * self.chunk for row in numbers})
        if any(self.done[start : start + self.chunk].all() for start in touched):
            with self._alone():
                for start in touched:
                    self._write_if_whole(start)

    def known(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A number of some rows that are there, by its name, in parts or chunks."""
        found = np.asarray(Kept(self.group, name, "into")[:])
        for numbers, values in self.parts.known(name):
            found[numbers] = values
        return found[rows]

    def settle(self) -> None:
        """Write all chunks whose rows are there, whoever solved them; remove the folder of parts if that was all."""
        with self._alone():
            self._settled = self._marked()
            self._scan()
            for start in range(0, self._count, self.chunk):
                self._write_if_whole(start)
            if self._settled.all():
                self.parts.remove()

    def close(self) -> None:
        """Do nothing: files are closed."""

    def _write_if_whole(self, start: int) -> None:
        stop = min(start + self.chunk, self._count)
        if self._settled[start:stop].all() or not self.done[start:stop].all():
            return
        self._settled[start:stop] = Kept(self.group, "done", "into")[start:stop]
        if self._settled[start:stop].all():  # by another process, which has removed its files
            return
        rows = self.parts.gathered(start, stop, self._kind)
        for name in self._kind.names or ():
            if name != "row":
                values = (as_texts if name in TEXTS else np.ascontiguousarray)(rows[name])
                _writing_all(self.group, name)[start:stop] = values
        self.group["done"][start:stop] = True
        self._settled[start:stop] = True
        self.parts.drop(self._settled)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Settle while no other shard does."""
        with writing(self.path):
            if not self.parts.folder.is_dir():
                yield
                return
            with open(self.parts.folder / "lock", "wb") as file:
                lock(file)
                yield


_settings = threading.Lock()


def _writing_all(group: Any, name: str) -> Any:
    """An array of a group that writes chunks of zeros, too."""
    with _settings, zarr_or_refuse().config.set({"array.write_empty_chunks": True}):  # zarr's, of all threads
        return group[name]


def _parts_of(group: Any) -> Folder:
    """Folder of the rows that wait for others of their chunks, and the sign of all that decides about them."""
    path = Path(group.store.root)
    batch = [group.attrs.get(name) for name in (*IDENTITY, "versions")]
    return Folder(path.with_name(f"{path.name}.parts"), digest(json.dumps(batch, sort_keys=True)))


def waiting(group: Any) -> int:
    """Count the rows of a store that are solved and wait for others of their chunks."""
    parts = Parts(_parts_of(group))
    parts.scan()
    there = {int(row) for rows in parts.there() for row in rows}
    return int((~Kept(group, "done")[:][sorted(there)]).sum()) if there else 0


def chunk_rows(kind: np.dtype[np.void], count: int) -> int:
    """Rows of a chunk: a power of two, so many that its largest array has about `CHUNK` bytes."""
    largest = max(kind[name].itemsize for name in kind.names or ())
    return min(count, 1 << int(np.clip(np.log2(CHUNK / largest), 5, 13)))


def opened(path: Path, field: str = "into") -> Any:
    """The group of a store; ProblemError, which begins with the name of the argument, for what is none."""
    zarr = zarr_or_refuse(field)
    if not path.exists():
        raise ProblemError(f"{field}: there is no store {shown(path)}")
    try:
        group = zarr.open_group(str(path.absolute()), mode="r+")  # programs may turn to another folder
        attributes = dict(group.attrs)
        sign = attributes.get("format"), attributes.get("version")
    except Exception as reason:
        _pass_on(reason, path, field)
        why = "" if isinstance(reason, (FileExistsError, FileNotFoundError)) else f" ({type(reason).__name__})"
        raise ProblemError(f"{field}: {shown(path)} is no store of solves{why}") from None
    if sign[0] != FORMAT:
        raise ProblemError(f"{field}: {shown(path)} is no store of solves")
    if sign[1] not in range(OLDEST, VERSION + 1):
        raise ProblemError(f"{field}: {shown(path)} is a store of version {sign[1]}, expected {VERSION}: solve anew")
    with reading(path, field):
        varied = {f"over.{name}" for name in attribute(group, "over")}
        missing = ({"done", *(name for name, _ in SCALARS)} - {"row"} | varied) - set(group.array_keys())
    if missing:
        raise ProblemError(f"{field}: {shown(path)} is damaged, it lacks {', '.join(sorted(missing))}: solve anew")
    return group


class Kept:
    """An array of a store: zarr's, but for ProblemErrors that name the rows where it is damaged."""

    def __init__(self, group: Any, name: str, field: str = "path") -> None:
        self._path, self._field, self._group = Path(group.store.root, name), field, group
        self._tells_lost = name != "done" and group.attrs.get("version", 0) > OLDEST
        with reading(self._path, field):
            self._array = group[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copies and pickles ask for before they have an array
            raise AttributeError(name)
        return getattr(self._array, name)

    def __repr__(self) -> str:
        return repr(self._array)

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def __getitem__(self, which: Any) -> NDArray[Any]:
        if isinstance(which, np.ndarray) and which.dtype == bool and which.ndim == 1:  # zarr knows masks of all axes
            which = np.arange(len(self))[which]
        try:
            found = self._array[which]
        except Exception:
            for start, stop in self._chunks(which):
                with self._reading(start, stop):
                    self._array[start]
            raise
        if self._tells_lost:
            for start, stop in self._chunks(which):
                if self._is_lost(start, stop):
                    with self._reading(start, stop):
                        raise FileNotFoundError("a file is lost")
        return found

    def _chunks(self, which: Any) -> list[tuple[int, int]]:
        """First rows, and those after the last ones, of the chunks that are read."""
        count, size = len(self), self._array.chunks[0]
        rows = which[0] if isinstance(which, tuple) and which else which
        if isinstance(rows, slice):
            some = range(count)[rows]
            numbers = range(min(some[0], some[-1]) // size, max(some[0], some[-1]) // size + 1) if some else some
        elif np.ndim(rows) < 2:
            numbers = np.unique(np.arange(count)[rows] // size).tolist()
        else:
            numbers = range(-(-count // size))
        return [(size * i, min(size * i + size, count)) for i in numbers]

    def _is_lost(self, start: int, stop: int) -> bool:
        """Whether the file of a chunk is not there, though its rows are: those that vary always, others once done."""
        file = self._path.joinpath("c", str(start // self._array.chunks[0]), *["0"] * (self._array.ndim - 1))
        if file.exists() or 0 in self._array.shape:  # arrays without numbers have no files
            return False
        is_done = self._path.name.startswith("over.") or bool(np.any(self._group["done"][start:stop]))
        return is_done and not file.exists()  # another process may have written it meanwhile

    def _reading(self, start: int, stop: int) -> AbstractContextManager[None]:
        return reading(self._path, self._field, f" in rows {start} to {stop - 1}")


@contextmanager
def reading(path: str | os.PathLike[str], field: str = "path", where: str = "") -> Iterator[None]:
    """Tell in a ProblemError of files that are cut or changed, whatever zarr has to say of them, or cannot be read."""
    try:
        yield
    except Exception as reason:
        _pass_on(reason, path, field)
        damage = f"{type(reason).__name__}: {reason}"
        raise ProblemError(f"{field}: {shown(Path(path))} is damaged{where} ({damage}): solve anew") from None


def _pass_on(reason: Exception, path: str | os.PathLike[str], field: str) -> None:
    """Raise what is no sign of damage: ProblemError, MemoryError, and what the system says of files that are there."""
    if isinstance(reason, (ProblemError, MemoryError)):
        raise reason
    if isinstance(reason, OSError) and reason.errno not in (None, errno.ENOENT, errno.EEXIST, errno.ENOTDIR):
        raise ProblemError(f"{field}: cannot read {shown(Path(path))}: {reason.strerror}") from None


def attribute(group: Any, name: str) -> Any:
    """A mapping among the attributes of a store, which are texts."""
    return json.loads(group.attrs.get(name, "{}"))


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """A tree of attributes as texts by names."""
    if not isinstance(value, dict):
        return {NAMED.get(name, name): repr(value)}
    found: dict[str, str] = {}
    for key, part in value.items():
        found |= _flat(part, f"{name}.{key}" if name else key)
    return found
