"""Shared memory of batches: who finds it, how long it lasts, when it is free."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from ddp.many import buffers
from tests.ddp.children import status_of_child

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the system has no nameless memory")

TAKES = """
import pickle, sys, numpy as np
outlet = pickle.loads(bytes.fromhex(sys.argv[1]))
rows = np.array([(1, np.full(3, 7.0)), (4, np.full(3, 8.0))], [('row', '<i8'), ('X', '<f8', (3,))])
assert outlet._replace(target='/memfd:another (deleted)').take(8)[0] == outlet.take(outlet.size + 1)[0] == -1
for slot, own in enumerate((rows[1:], rows)):
    taken, room = outlet.take(own.nbytes)
    assert taken == slot
    room[:] = own.view(np.uint8)
"""


@pytest.fixture(autouse=True)
def _first_batch(monkeypatch):
    monkeypatch.setattr(buffers, "_idle", [])
    monkeypatch.setattr(buffers, "_mapped", {})


def test_memory_of_a_batch_is_found_by_who_is_told_and_serves_the_next_batch():
    kind, nothing = np.dtype([("row", "<i8"), ("X", "<f8", (3,))]), np.zeros(0, [("row", "<i8")])
    memory = buffers.Memory(5, kind)
    memory.put(np.array([(3, np.ones(3))], kind), nothing)
    outlet = pickle.loads(pickle.dumps(memory.outlet))
    subprocess.run([sys.executable, "-c", TAKES, pickle.dumps(outlet).hex()], check=True)
    memory.adopt(np.array([1, 4]), nothing, 1)
    assert memory.rows["X"][[1, 3, 4], 0].tolist() == [7.0, 1.0, 8.0]
    assert outlet.take(1)[0] == 1  # a slot serves again; the other one is taken
    memory.adopt(np.zeros(0, int), nothing, 1)
    memory.adopt(np.zeros(0, int), nothing, 0)
    memory.close()
    again, other = buffers.Memory(5, kind), buffers.Memory(5, kind)
    assert again.outlet == outlet
    assert (second := other.outlet) != outlet
    assert outlet.take(1)[0] == 1  # the one that this process has written to
    assert outlet.take(1)[0] == 0
    again.close()  # two are taken: whoever has them may still write to them
    other.close()
    assert outlet.take(1)[0] == -1
    assert buffers.Memory(5, kind).outlet == second
    assert memory.rows["X"][[1, 3, 4], 0].tolist() == [7.0, 1.0, 8.0]


def test_memory_of_batches_is_that_of_their_process_and_no_more_than_some_is_kept(monkeypatch):
    kind = np.dtype([("row", "<i8")])
    memory = buffers.Memory(1, kind)
    before = memory.outlet
    memory.close()

    def have_its_own():
        idle = buffers._idle[0]._file
        os.dup2(0, idle)  # as a process in the background has it, which has closed all files
        assert buffers.Memory(1, kind).outlet != before
        assert os.path.samestat(os.fstat(0), os.fstat(idle))

    assert status_of_child(have_its_own) == 0
    again = buffers.Memory(1, kind)
    assert again.outlet == before
    monkeypatch.setattr(buffers, "KEPT", 1 << 12)
    slot, room = before.take(1 << 14)
    room[:] = 1
    again.adopt(np.zeros(0, int), np.zeros(0, [("row", "<i8")]), slot)
    again.close()
    assert before.take(1)[0] == -1
    assert not room.any()  # its pages are free, though this process has them mapped


def test_memory_that_cannot_be_had_leaves_no_file_open(monkeypatch):
    def full(*_):
        raise OSError("no address space")

    monkeypatch.setattr(buffers.mmap, "mmap", full)
    open_files = os.listdir("/proc/self/fd")
    assert buffers.Memory(1, np.dtype([("row", "<i8")])).outlet is None
    assert os.listdir("/proc/self/fd") == open_files
