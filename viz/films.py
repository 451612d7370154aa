"""Films and pictures of motions: frames that a browser without windows draws of a page, joined by ffmpeg or Pillow."""

import base64
import contextlib
import importlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from ddp.errors import ProblemError, flag, integer, positive, said, suggesting, text
from ddp.files import as_path, as_target, write_atomically
from viz.bodies import Drawable
from viz.html import page
from viz.motions import Played, Simulated, Solved
from viz.scene import build
from viz.server import show, withdraw
from viz.signals import Replanned

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)  # fmt: skip
PATIENCE = 120.0
"""Time that the browser may take for a frame [s]."""
MOST_FRAMES = 20_000
SLOWEST = 0.002
"""Fewest frames a second of a .gif file, which counts hundredths of a second in 16 bits."""
LARGEST = 7680
"""Most pixels of a side."""

FILM = """
<script>
(async function () {
  const film = $film, send = (what) => fetch(location.href, { method: "POST", body: JSON.stringify(what) });
  try {
    while (!window.mayne) await new Promise((done) => setTimeout(done, 20));
    const { viewer, seek, duration, fit, follow } = window.mayne;
    const pane = document.getElementById("pane"), size = { width: film.width + "px", height: film.height + "px" };
    Object.assign(pane.style, { position: "fixed", top: 0, left: 0, zIndex: 1 }, size);
    fit();
    const count = Math.max(1, Math.floor(duration / film.speed * film.fps + 1e-6) + 1);
    await send({ count: count });
    for (let k = 0; k < count; k++) {
      const when = Math.min(k / film.fps * film.speed, duration);
      seek(when);
      if (film.follow) follow(when);
      await send({ frame: k, picture: viewer.capture_image(film.width, film.height) });
    }
    await send({ ended: true });
  } catch (reason) {
    await send({ failed: String(reason) });
  }
})();
</script></body>"""


@suggesting
def save_video(
    path: str | os.PathLike[str],
    robot: Drawable | Solved | Played | Replanned | Mapping[str, Solved | Simulated | ArrayLike] | str
    | os.PathLike[str],
    X: ArrayLike | Solved | None = None,
    dt: ArrayLike | None = None,
    frames: Sequence[str] | None = None,
    *,
    fps: float = 30.0,
    speed: float = 1.0,
    width: int = 1280,
    height: int = 720,
    follow: bool = False,
    camera: tuple[ArrayLike, ArrayLike] | None = None,
) -> Path:
    """Write a motion as a film, and return where it is.

    path: .mp4 or .gif, or a folder, new or empty, for the frames as .png.
    robot, X, dt, frames, camera: as of `save_html`; or ``robot`` alone, the path of a page that `save_html` wrote, for
    all that its other arguments offer.
    fps [1/s]: frames a second of the film.   speed: seconds of motion in a second of the film, 0.1 is slow.
    width, height: of the picture, pixels; even numbers for .mp4.   follow: whether the camera goes with the robot.

    It needs Chromium or Chrome, and for .mp4 ffmpeg, on the path or as the package imageio-ffmpeg. Where there is none,
    the record button of any page makes a film in the reader's browser.
    Raises ProblemError for bad input, and where the browser or ffmpeg is missing or fails.
    """
    target = _target(path)
    browser = _browser()
    even = 2 if target.suffix.lower() == ".mp4" else 1
    film = {
        "fps": positive("fps", fps), "speed": positive("speed", speed), "width": _side("width", width, even),
        "height": _side("height", height, even), "follow": flag("follow", follow),
    }  # fmt: skip
    encoder = _ffmpeg() if target.suffix.lower() == ".mp4" else None
    if target.suffix.lower() == ".gif" and float(film["fps"]) < SLOWEST:
        raise ProblemError(f"fps: expected at least {SLOWEST:g} for .gif, got {film['fps']:g}")
    written = _page(robot, X, dt, frames, camera)
    with tempfile.TemporaryDirectory() as folder:
        pictures = _drawn(browser, written, film, Path(folder))
        if encoder is not None:
            write_atomically(target, _joined(encoder, Path(folder), float(film["fps"])))
        elif target.suffix:
            write_atomically(target, _as_gif(pictures, float(film["fps"])))
        else:
            target.mkdir(exist_ok=True)
            for picture in pictures:
                shutil.copyfile(picture, target / picture.name)
    return target


def _target(path: str | os.PathLike[str]) -> Path:
    target = as_target(path)
    if target.suffix.lower() not in (".mp4", ".gif", ""):
        raise ProblemError(f"path: expected .mp4, .gif, or a folder for frames, got {said(str(target))}")
    if target.is_dir() and (target.suffix or any(target.iterdir())):
        raise ProblemError(f"path: expected a file, or a folder that is new or empty, got {said(str(target))}")
    if target.is_file() and not target.suffix:
        raise ProblemError(f"path: expected .mp4, .gif, or a folder for frames, got a file, {said(str(target))}")
    return target


def _side(field: str, value: int, step: int) -> int:
    pixels = integer(field, value, 16)
    if pixels > LARGEST or pixels % step:
        raise ProblemError(f"{field}: expected at most {LARGEST}{', and an even number' * (step > 1)}, got {pixels}")
    return pixels


def _page(
    robot: Any, X: Any, dt: ArrayLike | None, frames: Sequence[str] | None,
    camera: tuple[ArrayLike, ArrayLike] | None,
) -> str:  # fmt: skip
    if not isinstance(robot, (str, os.PathLike)):
        scene = build(robot, X, dt, frames, camera=camera)
        return page(scene, text("title", scene.name))
    if any(given is not None for given in (X, dt, frames, camera)):
        raise ProblemError("X, dt, frames, camera: expected with a robot or a Solution; a page has its own")
    file = as_path(robot, "robot")
    try:
        written = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        written = ""
    if 'id="scene"' not in written:
        raise ProblemError(f"robot: expected a robot, a Solution or a page that save_html wrote, got {said(str(file))}")
    return written


def _browser() -> str:
    named = os.environ.get("CHROME_PATH", "")
    found = next((where for name in (named, *BROWSERS) if name and (where := shutil.which(name))), None)
    if found is None:
        raise ProblemError(
            "save_video: needs Chromium or Chrome, on the path or named by CHROME_PATH; without, the record button of "
            "any page makes a film in the reader's browser"
        )
    return found


def _ffmpeg() -> str:
    found = shutil.which("ffmpeg")
    if found is None:
        try:
            found = str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
        except (ImportError, RuntimeError):
            raise ProblemError(
                "path: .mp4 needs ffmpeg, on the path or by `pip install imageio-ffmpeg`; .gif and folders do without"
            ) from None
    return found


def _drawn(browser: str, written: str, film: Mapping[str, Any], folder: Path) -> list[Path]:
    """Pictures of a page's motion, one file each, in order."""
    heard: queue.Queue[dict[str, Any]] = queue.Queue()

    def answer(request: bytes) -> str:
        heard.put(json.loads(request))
        return "{}"

    head, _, tail = written.rpartition("</body>")
    own = head.replace("connect-src 'none'", "connect-src 'self'") + FILM.replace("$film", json.dumps(film)) + tail
    most = 8 * int(film["width"]) * int(film["height"]) + 100_000
    address = show(own, answer=answer, longest=most)
    pictures: list[Path] = []
    try:
        with _opened(browser, address, int(film["width"]), int(film["height"])) as process:
            while True:
                told = _next(heard, process)
                if told.get("count", 0) > MOST_FRAMES:
                    raise ProblemError(f"fps, speed: expected at most {MOST_FRAMES} frames, got {told['count']}")
                if "failed" in told:
                    raise ProblemError(f"save_video: the browser could not draw the page: {told['failed']}")
                if "picture" in told:
                    pictures.append(folder / f"{told['frame']:05d}.png")
                    pictures[-1].write_bytes(base64.b64decode(told["picture"].partition(",")[2]))
                if "ended" in told:
                    return pictures
    finally:
        withdraw(address)


def _next(heard: queue.Queue[dict[str, Any]], process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next thing that the page tells; ProblemError once the browser has ended or is silent for PATIENCE."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(queue.Empty):
            return heard.get(timeout=0.2)
        if process.poll() is not None and heard.empty():
            raise ProblemError(f"save_video: the browser has ended with exit status {process.returncode}")
    raise ProblemError(f"save_video: the browser drew nothing for {PATIENCE:g} s")


@contextlib.contextmanager
def _opened(browser: str, address: str, width: int, height: int) -> Iterator[subprocess.Popen[bytes]]:
    """Within the block, a browser without windows shows a page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [
            browser, "--headless=new", *root, "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
            f"--window-size={width},{height}", f"--user-data-dir={profile}", "--no-first-run", address,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _joined(encoder: str, folder: Path, fps: float) -> bytes:
    """Pictures of a folder as the bytes of an .mp4 file."""
    film = folder / "film.mp4"
    command = [
        encoder, "-y", "-loglevel", "error", "-framerate", f"{fps:g}", "-i", str(folder / "%05d.png"),
        "-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(film),
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise ProblemError(f"save_video: ffmpeg failed: {ended.stderr.strip()[-200:]}")
    return film.read_bytes()


def _as_gif(pictures: Sequence[Path], fps: float) -> bytes:
    """Pictures as the bytes of a .gif file that plays for ever."""
    from io import BytesIO

    from PIL import Image

    images = [Image.open(picture).convert("RGB").quantize(128) for picture in pictures]
    stream = BytesIO()
    about = {"save_all": True, "append_images": images[1:], "duration": max(20, round(1000.0 / fps)), "loop": 0}
    images[0].save(stream, "GIF", **about)
    return stream.getvalue()
