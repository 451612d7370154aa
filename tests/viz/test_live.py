"""The viewer is a page of this process's own, on 127.0.0.1 alone, and ends with the process."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pinocchio as pin
import pytest
from click.testing import CliRunner
from listeners import listening, refused, session
from pages import Page
from thorough import cases

import dynamics.robots.model as dynamics
import viz
from ddp.errors import ProblemError
from problems import cli

POLE = """
import numpy as np, pinocchio as pin, dynamics.robots.model as dynamics, viz
model = pin.Model()
model.appendBodyToJoint(
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge"),
    pin.Inertia(1.0, np.array([0.0, 0.0, -0.5]), np.eye(3)), pin.SE3.Identity(),
)
drawn = viz.animate(dynamics.load(model), np.zeros((5, 2)), 0.1)
print(drawn.where, flush=True)
"""


@pytest.fixture(scope="module")
def pole():
    model = pin.Model()
    model.name = "pole"
    hinge = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(hinge, pin.Inertia(1.0, np.array([0.0, 0.0, -0.5]), np.eye(3)), pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", hinge, 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, -1.0])), pin.FrameType.OP_FRAME))
    return dynamics.load(model)


@pytest.fixture
def shown(pole):
    return viz.animate(pole, np.zeros((5, 2)), 0.1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A solution that `mayne view` plays."""
    path = tmp_path_factory.mktemp("saved") / "swing.npz"
    CliRunner().invoke(cli.main, ["solve", "pendulum/swing-up", "--max-iterations", "2", "--save", str(path)])
    return path


@pytest.fixture
def started():
    """Start Python with some arguments in a session of its own, which nothing of survives the test."""
    running = []

    def start(*arguments, **options):
        # Ctrl-C is for a program in the foreground: one in the background of a shell would not hear of it
        heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, *map(str, arguments)]
        running.append(subprocess.Popen(command, start_new_session=True, **heard, **pipes, **options))
        return running[-1]

    yield start
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def answer(address, method="GET", **headers):
    with urlopen(Request(address, headers=headers, method=method), timeout=60) as response:
        return response.status, dict(response.headers), response.read()


def address_of(stream):
    """The viewer's address in what a process writes."""
    for line in stream:
        for word in line.split():
            if word.startswith("http://"):
                return word
    raise AssertionError("no address was told")


def refuses_connections(address):
    where = urlsplit(address)
    with socket.socket() as probe:
        return probe.connect_ex((where.hostname, where.port)) != 0


def test_the_viewer_is_the_page_of_the_file(tmp_path, pole):
    X = np.linspace(0.0, 1.0, 12).reshape(6, 2)
    arguments = {"frames": ["tip"], "ghost": X[-1], "title": "swings & rests", "ground": -1.0}
    viz.save_html(tmp_path / "pole.html", pole, X, 0.1, **arguments)
    status, headers, text = answer(viz.animate(pole, X, 0.1, **arguments).where)
    file, live = Page((tmp_path / "pole.html").read_text()), Page(text.decode())
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert [tag for tag, _ in live.tags] == [tag for tag, _ in file.tags]
    assert [(m["type"], m["path"]) for m in live.messages] == [(m["type"], m["path"]) for m in file.messages]
    assert live.messages[-1] == file.messages[-1]  # the motion
    assert "<h1>swings &amp; rests</h1>" in text.decode()


def test_every_motion_has_a_page_of_one_server(pole, shown):
    other = viz.animate(pole, np.ones((3, 2)), 0.1, title="another")
    assert urlsplit(other.where).port == urlsplit(shown.where).port
    assert other.where != shown.where
    assert b"<h1>another</h1>" in answer(other.where)[2]
    assert b"<h1>pole</h1>" in answer(shown.where)[2]


def test_only_this_machine_is_listened_to(shown):
    """None of all that this process listens to is open to others."""
    assert ("127.0.0.1", urlsplit(shown.where).port) in listening()
    assert {address for address, _ in listening()} == {"127.0.0.1"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}"])
def test_a_name_that_was_bound_to_this_machine_is_refused(shown, host):
    with refused("421"):
        answer(shown.where, Host=host.format(port=urlsplit(shown.where).port))


def test_a_request_without_a_host_and_one_with_two_are_refused(shown):
    where = urlsplit(shown.where)
    for hosts in ([], [where.netloc, "evil.example"]):
        connection = http.client.HTTPConnection(where.netloc, timeout=60)
        connection.putrequest("GET", where.path, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        assert connection.getresponse().status == 421
        connection.close()


def test_localhost_is_this_machine_too(shown):
    assert answer(shown.where.replace("127.0.0.1", "localhost"))[0] == 200


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/../../etc/passwd", "{path}/..", "{path}?"])
def test_nothing_but_the_pages_is_there(shown, path):
    where = urlsplit(shown.where)
    with refused("404"):
        answer(f"http://{where.netloc}{path.format(path=where.path)}")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_pages_are_read_and_nothing_else(shown, method):
    with refused("405" if method == "POST" else "501"):
        answer(shown.where, method)
    status, headers, text = answer(shown.where, "HEAD")
    assert (status, text) == (200, b"")
    assert int(headers["Content-Length"]) == len(answer(shown.where)[2])


def test_browsers_that_hang_up_or_say_nothing_disturb_nobody(shown, capfd):
    where = urlsplit(shown.where)
    silent = socket.create_connection((where.hostname, where.port))
    whole = f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    for words in (b"", b"GET ", b"\0\xff\r\n\r\n", whole):
        with socket.create_connection((where.hostname, where.port)) as connection:
            connection.sendall(words)
    assert answer(shown.where)[0] == 200
    silent.close()
    assert capfd.readouterr() == ("", "")


def test_the_browser_is_opened_on_request(pole, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    viz.animate(pole, np.zeros((5, 2)), 0.1)
    assert opened == []
    assert opened == [viz.animate(pole, np.zeros((5, 2)), 0.1, open_browser=True).where]


def test_a_machine_without_a_browser_has_an_address_all_the_same(pole, monkeypatch):
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    assert answer(viz.animate(pole, np.zeros((5, 2)), 0.1, open_browser=True).where)[0] == 200


def test_a_machine_without_a_port_says_so(pole, monkeypatch):
    def refused(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("viz.server._server", None)
    monkeypatch.setattr(socket, "socket", refused)
    with pytest.raises(ProblemError, match=r"viewer: 127\.0\.0\.1 gives no port .*not permitted.*to a file"):
        viz.animate(pole, np.zeros((5, 2)), 0.1)


def test_in_a_notebook_the_page_is_shown_and_a_file_is_named(tmp_path, pole, shown):
    assert f'<iframe src="{shown.where}"' in shown._repr_html_()
    assert viz.save_html(tmp_path / "pole.html", pole, np.zeros((5, 2)), 0.1)._repr_html_() is None


def test_a_program_that_ends_leaves_nothing_and_says_nothing(started):
    process = started("-X", "dev", "-W", "error::ResourceWarning", "-c", POLE)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert refuses_connections(output.strip())


def test_a_program_that_ends_waits_for_the_browser_it_opened(started, tmp_path):
    """The page of a script that ends at once is there for a browser that takes a moment to start."""
    read = tmp_path / "read.html"
    (tmp_path / "browser.py").write_text(
        "import sys, time, urllib.request\n"
        f"time.sleep(0.7); open({str(read)!r}, 'wb').write(urllib.request.urlopen(sys.argv[1]).read())"
    )
    browser = f"{sys.executable} {tmp_path / 'browser.py'} %s &"
    program = POLE.replace("0.1)", "0.1, open_browser=True)").replace("drawn =", "viz.server.PATIENCE = 60.0\ndrawn =")
    process = started("-c", "import viz.server" + program, env={**os.environ, "BROWSER": browser})
    assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == 0
    assert len(Page(read.read_text()).messages) > 3


def test_a_forked_child_holds_no_port_and_can_show_pages_of_its_own(started):
    process = started("-W", "ignore", "-c", POLE + """
import os, sys
from urllib.request import urlopen
child = os.fork()
if child == 0:
    again = viz.animate(dynamics.load(model), np.zeros((5, 2)), 0.1).where
    print(again, len(urlopen(again).read()) > 1e5, flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], len(urlopen(drawn.where).read()) > 1e5)
""")  # fmt: skip
    output, errors = process.communicate(timeout=120)
    first, second, last = output.splitlines()
    assert errors == ""
    assert urlsplit(first).port != urlsplit(second.split()[0]).port
    assert second.endswith("True")
    assert last == "0 True"


VIEWERS = [["view", "{saved}"], ["solve", "pendulum/swing-up", "--view"]]


@pytest.mark.parametrize("arguments", cases(VIEWERS, VIEWERS[1:]))
def test_a_viewer_is_one_process_with_one_port_on_this_machine_and_ctrl_c_ends_it(started, saved, arguments):
    process = started("-m", "problems", *(word.format(saved=saved) for word in arguments), "--no-browser")
    where = address_of(process.stderr)
    assert listening(process.pid) == {("127.0.0.1", urlsplit(where).port)}
    assert session(process.pid) == {process.pid}
    assert answer(where)[0] == 200
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors.strip()) == (0, "")
    assert output == "" if arguments[0] == "view" else output.startswith("pendulum/swing-up, DDP: converged")
    assert refuses_connections(where)


@pytest.mark.parametrize(("limit", "status"), [(100, 0), (2, 1)])
def test_a_viewer_that_is_left_tells_by_its_exit_status_whether_the_solve_converged(monkeypatch, limit, status):
    def leave(seconds):
        raise KeyboardInterrupt

    opened = []
    monkeypatch.setattr(cli.time, "sleep", leave)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    command = ["solve", "pendulum/swing-up", "--view", "--max-iterations", str(limit)]
    result = CliRunner().invoke(cli.main, command)
    assert result.exit_code == status
    assert f"{opened[0]} until you press Ctrl-C; --html FILE writes a page and ends" in result.stderr
    assert CliRunner().invoke(cli.main, [*command, "--no-browser"]).exit_code == status
    assert len(opened) == 1


@pytest.mark.parametrize("number", cases([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], [signal.SIGKILL]))
def test_nothing_is_left_of_a_viewer_that_is_killed(started, saved, number):
    """While it starts, at a moment of chance, and while it is looked at."""
    starting = started("-m", "problems", "view", saved, "--no-browser")
    time.sleep(np.random.default_rng(int(number)).uniform(0.1, 1.5))
    starting.send_signal(number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        starting.wait(10.0)
    starting.send_signal(number)  # Python drops an interrupt that comes in the callback of a weak reference
    watched = started("-c", POLE + "import time; time.sleep(600)")
    where = address_of(watched.stdout)
    answer(where)
    watched.send_signal(number)
    for process in (starting, watched):
        process.communicate(timeout=120)
        assert session(process.pid) == set()
    assert refuses_connections(where)


def test_a_driven_robot_moves_while_a_page_asks_and_ctrl_c_ends_it(started):
    process = started("-m", "problems", "drive", "pendulum/swing-up", "--horizon", "20", "--no-browser")
    where = address_of(process.stderr)
    told = {"who": "a", "hand": None, "command": [0.0] * 3, "target": None, "again": False}

    def ask(**what):
        origin = "http://" + urlsplit(where).netloc
        return json.loads(urlopen(Request(where, json.dumps(told | what).encode(), {"Origin": origin})).read())

    before = ask(first=True, kicks=[[0.0, 1.0, 0.0]])["places"]
    end = time.monotonic() + 120.0
    while ask(kicks=[])["places"] == before:
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert session(process.pid) == set()
    assert refuses_connections(where)
