"""Films have every moment of a motion once and in order, are whole, and say what is missing."""

import stat
import sys

import numpy as np
import pytest
from PIL import Image

import viz
from ddp.errors import ProblemError
from viz import films

BROWSER = '''#!{python}
"""Stand-in for a browser: read the page that is filmed, and post a picture of each moment."""
import base64, io, json, re, sys, time, urllib.request
from PIL import Image
address = sys.argv[-1]
text = urllib.request.urlopen(address).read().decode()
film = json.loads(re.search(r"const film = (.*?), send", text).group(1))
assert "connect-src 'self'" in text
duration = float(re.search(r'max="([0-9.e-]+)"', text).group(1))
def send(what):
    origin = "/".join(address.split("/")[:3])
    urllib.request.urlopen(urllib.request.Request(address, json.dumps(what).encode(), {{"Origin": origin}})).read()
if {fails!r}:
    send({{"failed": "no WebGL"}})
count = int(duration / film["speed"] * film["fps"] + 1e-6) + 1
send({{"count": count}})
for k in range(count):
    stream = io.BytesIO()
    Image.new("RGB", (film["width"], film["height"]), (10 * k % 256, 0, 0)).save(stream, "PNG")
    send({{"frame": k, "picture": "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()}})
send({{"ended": True}})
time.sleep(60)
'''


@pytest.fixture(scope="module")
def pole():
    from problems import pendulum

    return pendulum.swing_up().dynamics.robot


def program(folder, name, text):
    file = folder / name
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture
def browser(tmp_path, monkeypatch):
    monkeypatch.setenv("CHROME_PATH", program(tmp_path, "browser", BROWSER.format(python=sys.executable, fails=False)))
    return tmp_path


def test_a_gif_has_each_moment_once_and_in_order(browser, pole):
    written = viz.save_video(browser / "p.gif", pole, np.zeros((11, 2)), 0.1, fps=10, width=64, height=48)
    with Image.open(written) as film:
        assert (film.size, film.n_frames, film.info["loop"]) == ((64, 48), 11, 0)
        shades = []
        for k in range(film.n_frames):
            film.seek(k)
            shades.append(film.convert("RGB").getpixel((5, 5))[0])
    assert np.allclose(shades, 10 * np.arange(11), atol=3)


def test_slow_motion_has_more_frames_and_a_folder_has_a_file_for_each(browser, pole):
    folder = viz.save_video(browser / "frames", pole, np.zeros((6, 2)), 0.1, fps=10, speed=0.5, width=32, height=32)
    assert sorted(file.name for file in folder.iterdir()) == [f"{k:05d}.png" for k in range(11)]
    with pytest.raises(ProblemError, match="new or empty"):
        viz.save_video(folder, pole, np.zeros((6, 2)), 0.1)


def test_a_page_is_filmed_as_it_was_written(browser, pole):
    viz.save_html(browser / "p.html", pole, np.zeros((4, 2)), 0.1, obstacles=[viz.Sphere([1, 0, 0], 0.1)])
    written = viz.save_video(browser / "p.gif", browser / "p.html", fps=10, width=32, height=32)
    with Image.open(written) as film:
        assert film.n_frames >= 1


def test_ffmpeg_joins_frames_and_its_errors_are_told(browser, pole, monkeypatch):
    drawn = np.zeros((3, 2))
    script = f"#!{sys.executable}\nimport sys\nopen(sys.argv[-1], 'w').write(' '.join(sys.argv[1:-1]))\n"
    encoder = program(browser, "ffmpeg", script)
    monkeypatch.setattr(films.shutil, "which", lambda name: encoder if name == "ffmpeg" else name)
    film = viz.save_video(browser / "p.mp4", pole, drawn, 0.1, fps=12.5, width=32, height=32)
    assert "-framerate 12.5" in film.read_text()
    program(browser, "ffmpeg", f"#!{sys.executable}\nimport sys\nsys.exit('no such codec')\n")
    with pytest.raises(ProblemError, match="ffmpeg failed: no such codec"):
        viz.save_video(browser / "q.mp4", pole, drawn, 0.1, width=32, height=32)
    assert not (browser / "q.mp4").exists()


def test_what_is_missing_is_named(tmp_path, pole, monkeypatch):
    monkeypatch.delenv("CHROME_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(films, "BROWSERS", ("chromium",))
    with pytest.raises(ProblemError, match=r"needs Chromium or Chrome.*record button"):
        viz.save_video(tmp_path / "p.gif", pole, np.zeros((3, 2)), 0.1)
    monkeypatch.setenv("CHROME_PATH", program(tmp_path, "chromium", BROWSER.format(python=sys.executable, fails=True)))
    monkeypatch.setattr(films.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(ProblemError, match=r"\.mp4 needs ffmpeg.*imageio-ffmpeg"):
        viz.save_video(tmp_path / "p.mp4", pole, np.zeros((3, 2)), 0.1)
    with pytest.raises(ProblemError, match="could not draw the page: no WebGL"):
        viz.save_video(tmp_path / "p.gif", pole, np.zeros((3, 2)), 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "p.avi"}, r"path: expected \.mp4, \.gif, or a folder"),
        ({"path": "no/p.gif"}, "existing folder"),
        ({"fps": 0.0}, "fps: expected a positive"),
        ({"speed": -1.0}, "speed: expected a positive"),
        ({"path": "p.mp4", "width": 31}, "width: expected .* even"),
        ({"height": 10**6}, "height: expected at most"),
        ({"robot": "nothing.html", "X": None, "dt": None}, "robot: expected a robot, a Solution or a page"),
        ({"robot": "nothing.html"}, "X, dt, frames, camera: expected with a robot"),
    ],
)
def test_bad_input_is_named(browser, pole, change, message):
    given = {"path": "p.gif", "robot": pole, "X": np.zeros((3, 2)), "dt": 0.1} | change
    if isinstance(given["robot"], str):
        given["robot"] = browser / given["robot"]
    with pytest.raises(ProblemError, match=message):
        viz.save_video(browser / given.pop("path"), **given)


def test_a_notebook_shows_the_page_of_a_robots_solution_and_a_plot_of_others():
    import mayne
    from viz.html import as_html

    solution = mayne.solve(mayne.pendulum.swing_up())
    shown = solution._repr_html_()
    assert shown.startswith("<p><code>converged after")
    assert "<iframe srcdoc=" in shown
    car = mayne.find("integrator/reach")()
    assert "<svg" in as_html(mayne.solve(car, throw=False))
