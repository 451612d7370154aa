"""Pages of problems in headless Chromium: whether all that moves stays in the picture, sizes, time to the first frame.

`python tests/benchmarks/pages.py [NAME ...] [--folder pages]` solves, writes and opens them; it needs Chromium.
"""

import argparse
import contextlib
import http.server
import json
import math
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

WINDOWS = ((1280, 720), (390, 844))
LARGEST, SLOWEST = 10e6, 3.0
"""Bounds of a page's size [bytes] and of the time to its first frame [s]."""
NO_ROBOT = "expected the motion of a robot to draw"
"""Said of systems that are functions, which have no page."""

LOOK = """<script>
(async function () {
  const errors = [], report = {};
  window.addEventListener("error", (event) => errors.push(event.message));
  window.addEventListener("unhandledrejection", (event) => {
    fetch("report", { method: "POST", body: JSON.stringify({ errors: [String(event.reason)] }) });
  });
  window.addEventListener("securitypolicyviolation", (event) => errors.push("refused: " + event.blockedURI));
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  while (!window.viewer) await frame();
  await frame();
  report.first = performance.now() / 1000;
  const viewer = window.viewer, pane = document.getElementById("pane");
  viewer.renderer.render = () => {};  // places are read below, and drawing them all takes minutes without a GPU
  let outside = 0, seen = 0;
  for (let k = 0; k <= 10; k++) {
    const time = document.getElementById("time");
    time.value = k / 10 * Number(time.max);
    time.dispatchEvent(new Event("input"));
    await frame(); await frame();
    viewer.camera.updateMatrixWorld(true);
    viewer.scene.updateMatrixWorld(true);
    const root = viewer.scene_tree.find(["mayne"]);
    for (const part of ["robot", "ghost", "traces", "motion 1"]) {
      if (!(part in root.children)) continue;
      root.children[part].object.traverse((mesh) => {
        if (!mesh.isMesh) return;
        const points = mesh.geometry.attributes.position, corner = viewer.camera.position.clone();
        for (let i = 0; i < points.count; i += Math.max(1, Math.floor(points.count / 200))) {
          corner.fromBufferAttribute(points, i).applyMatrix4(mesh.matrixWorld).project(viewer.camera);
          outside = Math.max(outside, Math.abs(corner.x), Math.abs(corner.y));
          seen += 1;
        }
      });
    }
  }
  const box = pane.getBoundingClientRect();
  const rooms = [...document.querySelectorAll("#about, #bar, #plots, h1")].filter((e) => e.offsetHeight > 0);
  report.covered = rooms.some((room) => {
    const other = room.getBoundingClientRect();
    return other.left < box.right - 1 && other.right > box.left + 1 && other.top < box.bottom - 1
      && other.bottom > box.top + 1;
  });
  report.outside = outside; report.seen = seen; report.errors = errors; report.pane = [box.width, box.height];
  fetch("report", { method: "POST", body: JSON.stringify(report) });
})();
</script></body>"""


class Server(http.server.ThreadingHTTPServer):
    """Serve one page and wait for its report."""

    def __init__(self, text, width, height):
        super().__init__(("127.0.0.1", 0), Answer)
        self.texts = {"/": frame_of("page", width, height).encode(), "/page": text.encode()}
        self.report = queue.Queue()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.texts.get(self.path, b""))

    def do_POST(self):
        self.server.report.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def frame_of(address, width, height):
    """A page in a frame of that size: windows are never narrower than 500 pixels."""
    return f'<iframe src="{address}" width="{width}" height="{height}" style="border: 0"></iframe>'


def look(page, width, height, picture=None):
    """Report of a page's own script on what a window of that size shows of it."""
    head, _, tail = page.read_text(encoding="utf-8").rpartition("</body>")
    command = [
        shutil.which("chromium") or "chromium", "--headless=new", "--no-sandbox", "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader", "--hide-scrollbars",
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if picture is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".html", dir=page.parent) as around:
            around.write(f'<body style="margin: 0">{frame_of(page.as_uri(), width, height)}')
            around.flush()
            size = f"--window-size={max(width, 500)},{height + 100}"
            taken = [*command, size, "--virtual-time-budget=2000", f"--screenshot={picture}"]
            subprocess.run([*taken, Path(around.name).as_uri()], timeout=300, check=False, **quiet)
    text = (head + LOOK + tail).replace("default-src 'none'", "default-src 'none'; connect-src 'self'")
    with Server(text, width, height) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tempfile.TemporaryDirectory() as profile:
            address = f"http://127.0.0.1:{server.server_port}/"
            opened = [*command, f"--window-size={width + 200},{height + 200}", f"--user-data-dir={profile}", address]
            browser = subprocess.Popen(opened, **quiet)
            try:
                return server.report.get(timeout=120)
            except queue.Empty:
                return {"errors": ["no report within two minutes"]}
            finally:
                browser.terminate()
                browser.wait()
                server.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, help="keep pages here, and pictures of them")
    options = parser.parse_args()
    if not options.names:
        listed = subprocess.run([sys.executable, "-m", "mayne", "list", "--json"], capture_output=True, check=True)
        options.names = [problem["name"] for problem in json.loads(listed.stdout)]
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        failures = failures_of(options.names, folder, pictures=options.folder is not None)
    print(f"{failures} failures")
    return failures > 0


def failures_of(names, folder, *, pictures):
    """Number of failures of pages of problems, which are written into a folder; a line for each is printed."""
    failures = 0
    for name in names:
        page = folder.resolve() / f"{name.replace('/', '-')}.html"
        command = [sys.executable, "-m", "mayne", "solve", name, "--html", str(page)]
        ended = subprocess.run(command, capture_output=True, text=True)
        if not page.exists():
            said = (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
            print(f"{name:28} no page: {said}", flush=True)
            failures += NO_ROBOT not in said
            continue
        size, told = page.stat().st_size, []
        for width, height in WINDOWS:
            picture = page.with_name(f"{page.stem}-{width}.png") if pictures else None
            report = look(page, width, height, picture)
            for _ in range(2):  # a machine with other work is slower than its browser
                if not report["errors"] and report["first"] > SLOWEST:
                    report["first"] = min(report["first"], look(page, width, height).get("first", math.inf))
            bad = report["errors"] or report["covered"] or not report["seen"] or report["outside"] > 1.0
            bad = bad or report["first"] > SLOWEST
            failures += bool(bad)
            told.append(
                f"{width}x{height}: {'; '.join(report['errors'])}" if report["errors"] else
                f"{width}x{height}: reaches {report['outside']:.2f} of the edge, first frame {report['first']:.1f} s"
                f"{', COVERED' if report['covered'] else ''}"
            )  # fmt: skip
        failures += size > LARGEST
        print(f"{name:28} {size / 1e6:5.1f} MB   {'   '.join(told)}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
