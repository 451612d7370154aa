"""Ports that processes listen on, what they refuse, and processes of a session that are left, as Linux tells."""

import ipaddress
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest

LISTEN = "0A"


def listening(process: int | str = "self") -> set[tuple[str, int]]:
    """The addresses and ports at which a process waits for connections."""
    found = set()
    sockets = {match[1] for file in Path(f"/proc/{process}/fd").iterdir() if (match := _socket(file))}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in sockets:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                found.add((str(ipaddress.ip_address(b"".join(words))), int(port, 16)))
    return found


@contextmanager
def refused(status: str) -> Iterator[None]:
    """Expect an answer of this status; it is closed, which Python else warns of whenever it collects garbage."""
    with pytest.raises(HTTPError, match=status) as caught:
        yield
    caught.value.close()


def session(leader: int) -> set[int]:
    """The processes of a session that are not over."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = file.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # has ended since
        if int(owner) == leader and state != "Z":
            found.add(int(file.parent.name))
    return found


def _socket(file: Path) -> re.Match[str] | None:
    try:
        return re.fullmatch(r"socket:\[(\d+)\]", str(file.readlink()))
    except OSError:
        return None
