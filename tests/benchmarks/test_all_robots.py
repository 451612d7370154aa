"""Every robot of example-robot-data, loaded and drawn into a file: two minutes."""

import numpy as np
import pytest
from example_robot_data import robots_loader

import dynamics
import viz


@pytest.mark.parametrize("name", sorted(set(robots_loader.ROBOTS) - {"cassie"}))
def test_every_robot_is_loaded_and_drawn(name, tmp_path, benchmark):
    def load_and_draw():
        robot = dynamics.load(name, massless="fixed")
        viz.save_html(tmp_path / "robot.html", robot, np.stack([robot.q0, robot.q0]), 0.1)
        return robot

    robot = benchmark.pedantic(load_and_draw, rounds=1)
    shapes, missing = robot.visuals()
    assert missing == []
    assert robot.source.document.find("link/visual") is None or len(shapes.geometryObjects) > 0
    assert (tmp_path / "robot.html").stat().st_size > 10_000
