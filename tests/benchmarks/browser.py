"""Chromium without windows, told by its DevTools protocol what a person does: pages opened, mouse, keys, pictures."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """One page of a window of ``width`` by ``height`` pixels; errors: what the page complained of.

    Commands go through pipes, as ``--remote-debugging-pipe`` says: no port is opened.
    """

    def __init__(self, width=1280, height=720, mobile=False):
        self.errors, self.requests, self._numbers, self._rest = [], [], itertools.count(1), b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._out = os.pipe()
        self._in, ours = os.pipe()
        command = [
            BROWSER, "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
            "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "--no-first-run", "about:blank",
        ]  # fmt: skip

        def pipes():  # the protocol's numbers
            os.dup2(theirs, 1003)
            os.dup2(ours, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, **quiet)
        os.close(theirs)
        os.close(ours)
        targets = self._ask("Target.getTargets", session=None)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._ask("Target.attachToTarget", session=None, targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for room in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{room}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        if mobile:
            self._ask("Emulation.setTouchEmulationEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, address):
        """Open a page."""
        self._ask("Page.navigate", url=address)

    def run(self, script):
        """The value of a script, a promise's when it is kept."""
        found = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, script, seconds=30.0):
        """Wait until a script is true, and return its value."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"{script} stayed false for {seconds} s: {self.errors}"
            time.sleep(0.03)
        return found

    def mouse(self, kind, x, y):
        """Press, move or release the left button at a pixel."""
        down = {"button": "left", "clickCount": 1, "buttons": 0 if kind == "released" else 1}
        self._ask("Input.dispatchMouseEvent", type=f"mouse{kind.capitalize()}", x=x, y=y, **down)

    def key(self, kind, code, key=None):
        """A key goes "down" or "up"."""
        self._ask("Input.dispatchKeyEvent", type=f"key{kind.capitalize()}", code=code, key=key or code)

    def busy(self):
        """Processor time of the page's own thread so far [s]."""
        self._ask("Performance.enable", timeDomain="threadTicks")
        metrics = self._ask("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def picture(self, path):
        """Write the page as a .png file."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    def paper(self, path):
        """Write the page as it prints on A4 (.pdf)."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        path.write_bytes(base64.b64decode(self._ask("Page.printToPDF", **size)["data"]))

    def _ask(self, method, session="own", **parameters):
        number = next(self._numbers)
        asked = {"id": number, "method": method, "params": parameters}
        if session is not None:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._hear()
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]

    def _hear(self):
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        told = json.loads(message)
        event, about = told.get("method"), told.get("params", {})
        if event == "Runtime.exceptionThrown":
            self.errors.append(about["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return told
