"""Pages that answer, in headless Chromium: how soon a slider moves a motion, how soon a push moves a robot.

`python tests/benchmarks/people.py`: `mayne teach` of three problems, then `mayne drive` of four robots, each pulled
with the mouse for a second and then walked for two. Pictures are not drawn: one takes a second without a graphics card.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from browser import Browser

SOONEST = 0.1
"""Bound of the time from a slider to the new motion of the pendulum [s]; on a busy machine, of its processor time."""

MOVED = """
(async function () {
  const range = document.querySelectorAll("#sliders input")[0], found = [];
  for (let k = 0; k < %d; k++) {
    const load = window.viewer.animator.load.bind(window.viewer.animator);
    const moved = new Promise((done) => { window.viewer.animator.load = (...given) => { load(...given); done(); }; });
    range.value = 0.3 + 0.4 * ((k * 7) %% 13) / 13;
    const begun = performance.now();
    range.dispatchEvent(new Event("input"));
    await moved;
    await new Promise(requestAnimationFrame);
    found.push(performance.now() - begun);
    window.viewer.animator.load = load;
    await new Promise((done) => setTimeout(done, 300));
  }
  return found;
})()
"""
STILL = "window.viewer.renderer.render = () => {}"
MIDDLE = """(() => { const box = document.getElementById("pane").getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2]; })()"""


class Served:
    """A command of mayne that serves a page, and its address."""

    def __init__(self, *words):
        command = [sys.executable, "-m", "mayne", *words, "--no-browser"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.where = next(word for line in self._process.stderr for word in line.split() if word.startswith("http:"))

    def __enter__(self):
        return self

    def busy(self):
        """Processor time of the program so far [s]."""
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def __exit__(self, *exception):
        self._process.terminate()
        self._process.wait()


def taught(name, times):
    """Times from a slider to the new motion [ms], processor times of program and page for each, complaints."""
    with Served("teach", name) as served, Browser() as browser:
        browser.open(served.where)
        browser.until("Boolean(window.mayne && document.querySelector('#sliders input'))")
        browser.run(STILL)
        browser.run(MOVED % 2)
        before = served.busy(), browser.busy()
        found = browser.run(MOVED % times)
        shares = 1e3 * (np.array([served.busy(), browser.busy()]) - before) / times
        return np.array(found), shares, browser.errors


def driven(robot):
    """Place of a robot before, while and after it is pulled and walked, whether it fell, frames a second."""
    with Served("drive", "quadruped/trot", "--robot", robot) as served, Browser() as browser:
        browser.open(served.where)
        browser.until("Boolean(window.mayne && window.mayne.seen > 1)")
        browser.run(STILL)
        shown = browser.run("window.mayne.seen")
        browser.until(f"window.mayne.seen > {shown} + 5")  # a picture is drawn for seconds
        place = "window.viewer.scene_tree.find(['mayne', 'robot']).children"
        root = f"Object.entries({place}).find(([name]) => name.startsWith('1 '))[1].object.position.toArray()"
        simulated = "parseFloat(document.getElementById('told').textContent)"
        places = [browser.run(root)]
        x, y = browser.run(MIDDLE)
        browser.mouse("moved", x, y)
        browser.mouse("pressed", x, y)
        begun, clock, frames = browser.run(simulated), time.monotonic(), browser.run("window.mayne.seen")
        browser.mouse("moved", x + 120, y)
        browser.until(f"{simulated} > {begun} + 1")
        pushed = browser.run("document.getElementById('told').textContent").partition("pushed with ")[2]
        places.append(browser.run(root))
        browser.mouse("released", x + 120, y)
        browser.key("down", "KeyW", "w")
        browser.until(f"{simulated} > {begun} + 3")
        browser.key("up", "KeyW", "w")
        seconds = time.monotonic() - clock
        places.append(browser.run(root))
        told = browser.run("document.getElementById('told').textContent")
        rate = (browser.run("window.mayne.seen") - frames) / seconds
        return np.array(places), pushed, "fell" in told, 3.0 / seconds, rate, browser.errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taught", nargs="*", default=["pendulum", "cartpole", "arm"])
    parser.add_argument("--driven", nargs="*", default=["go2", "anymal", "solo12", "hyq"])
    parser.add_argument("--times", type=int, default=20)
    chosen, failures = parser.parse_args(), 0
    for name in chosen.taught:
        found, (program, page), errors = taught(name, chosen.times)
        late = name == "pendulum" and min(np.median(found), program + page) > 1e3 * SOONEST
        failures += late + bool(errors)
        print(
            f"{name:10} slider to new motion: {found.min():.0f} ms at least, median {np.median(found):.0f},"
            f" 95 % below {np.percentile(found, 95):.0f}; of a processor {program:.0f} ms in the program,"
            f" {page:.0f} in the page{'; '.join(['', *errors])}",
            flush=True,
        )
    for robot in chosen.driven:
        places, pushed, fell, pace, rate, errors = driven(robot)
        aside, ahead = (float(np.linalg.norm(places[k + 1][:2] - places[k][:2])) for k in range(2))
        failures += fell + bool(errors) + (aside < 0.01)
        print(
            f"{robot:10} pulled with {pushed or 'nothing'}: {100.0 * aside:.0f} cm in a second, then {ahead:.2f} m"
            f" in two; {'FELL' if fell else 'stayed up'}, {pace:.0%} of real time, {rate:.0f} poses a second"
            f"{'; '.join(['', *errors])}",
            flush=True,
        )
    print(f"{failures} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
