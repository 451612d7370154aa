"""Pages that this process shows to browsers on this machine: one server on 127.0.0.1, in a thread.

Only who knows a page's address reads it: the address holds a random word, and requests that name another host, as
those of a page from elsewhere do whose name has been bound to 127.0.0.1, are refused. There is no other process, and
the server ends with this one.
"""

import atexit
import contextlib
import logging
import os
import secrets
import threading
import time
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from ddp.errors import ProblemError

logger = logging.getLogger("mayne")

Answer = Callable[[bytes], str]

HOST = "127.0.0.1"
LONGEST = 100_000
"""Most bytes that a page may post."""
PATIENCE = 3.0
"""Time that a program which ends waits for the browser that it has opened to read its page [s]."""
TEXT_BROWSERS = ("www-browser", "links", "elinks", "lynx", "w3m")
"""Browsers without WebGL, which would take the terminal."""


class _Page:
    """The bytes of a page, and until when a browser is expected to read it [s], as `time.monotonic` counts.

    answer: what the page may ask for, JSON for JSON.   longest: most bytes that it may post.
    """

    def __init__(self, contents: bytes, answer: Answer | None = None, longest: int = LONGEST) -> None:
        self.contents, self.answer, self.longest = contents, answer, longest
        self.read = threading.Event()
        self.expected = 0.0


class _Server(ThreadingMixIn, TCPServer):
    """Pages by their paths, each request in a thread that ends with the process."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Request)
        self.pages: dict[str, _Page] = {}
        self.port = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; or here where a program ends, of which Python 3.12.0 and 3.12.1 let no thread begin."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self.process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Browsers that hang up are no errors of this program."""
        logger.debug("a request from %s failed", client_address, exc_info=True)


class _Request(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the pages, POST of those that ask for something, and nothing else."""

    server: _Server
    server_version, sys_version = "mayne", ""
    timeout = 10.0  # of a connection that says nothing

    def do_GET(self) -> None:
        page = self._page()
        if page is not None:
            self.wfile.write(page.contents)
            page.read.set()

    def do_HEAD(self) -> None:
        self._page()

    def do_POST(self) -> None:
        page = self._known()
        if page is None:
            return
        length = self.headers.get("Content-Length", "")
        if page.answer is None or self.headers.get("Origin") not in self._origins():
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif not length.isdecimal() or int(length) > page.longest:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            answer = page.answer(self.rfile.read(int(length))).encode("utf-8")
            self._begin("application/json", len(answer))
            self.wfile.write(answer)

    def _origins(self) -> tuple[str, ...]:
        return tuple(f"http://{host}:{self.server.port}" for host in (HOST, "localhost"))

    def _page(self) -> _Page | None:
        """The page asked for, its headers sent; None if the answer was a refusal."""
        page = self._known()
        if page is not None:
            self._begin("text/html; charset=utf-8", len(page.contents))
        return page

    def _known(self) -> _Page | None:
        """The page at the path of the request; None, and a refusal sent, if there is none or the host is another."""
        if self.headers.get_all("Host", []) not in ([f"{host}:{self.server.port}"] for host in (HOST, "localhost")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        page = self.server.pages.get(self.path)
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        return page

    def _begin(self, kind: str, length: int) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)


_server: _Server | None = None
_starting = threading.Lock()


def show(text: str, open_browser: bool = False, answer: Answer | None = None, longest: int = LONGEST) -> str:
    """The address of an HTML page, readable until this process ends; ProblemError if there is no port for it.

    answer: called, in a thread of its own, with what the page posts, at most ``longest`` bytes; returns JSON.
    """
    global _server
    with _starting:
        if _server is None:
            _server = _started()
        server = _server
    path = f"/{secrets.token_urlsafe(16)}/"
    page = server.pages[path] = _Page(text.encode("utf-8"), answer, longest)
    address = f"http://{HOST}:{server.port}{path}"
    if open_browser:
        opening = threading.Thread(target=_open, args=(address, page), daemon=True)
        opening.start()
        opening.join(1.0)  # some browsers return when their window is closed
    return address


def withdraw(address: str) -> None:
    """Show a page no more."""
    if _server is not None:
        _server.pages.pop("/" + address.split("/", 3)[3], None)


def _started() -> _Server:
    try:
        server = _Server()
    except OSError as reason:
        raise ProblemError(f"viewer: {HOST} gives no port to listen on ({reason}); write the page to a file") from None
    threading.Thread(target=server.serve_forever, args=(0.1,), name="pages of mayne", daemon=True).start()
    return server


def _open(address: str, page: _Page) -> None:
    """Open a browser that has windows, if there is one."""
    if not os.environ.get("BROWSER") and _usual_browser() in TEXT_BROWSERS:
        return
    with contextlib.suppress(webbrowser.Error, OSError):
        page.expected = time.monotonic() + PATIENCE
        if not webbrowser.open(address):
            page.expected = 0.0


def _usual_browser() -> str:
    try:
        return str(getattr(webbrowser.get(), "name", ""))
    except webbrowser.Error:
        return ""


def _close() -> None:
    """End the server, once browsers that were opened have their pages or PATIENCE is over."""
    if _server is None:
        return
    with contextlib.suppress(KeyboardInterrupt):
        for page in _server.pages.values():
            page.read.wait(max(0.0, page.expected - time.monotonic()))
        _server.shutdown()
    _server.server_close()


def _forget() -> None:
    """Leave the server to the parent: a forked child has its socket, but not its thread."""
    global _server, _starting
    if _server is not None:
        _server.socket.close()
    _server, _starting = None, threading.Lock()


atexit.register(_close)
os.register_at_fork(after_in_child=_forget)
