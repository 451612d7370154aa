"""Meshes that are there but broken are treated as those that are missing: a skeleton, and one warning."""

import logging
import struct

import numpy as np
import pytest
from pages import Page, vertices

import dynamics.robots.model as dynamics
import viz
from viz.bodies import bodies

STICK = """<robot name="stick">
  <link name="base"><visual><geometry><mesh filename="whole.stl" scale="2 2 2"/></geometry></visual></link>
  <link name="tip"><inertial><origin xyz="0 0 0.5"/><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="{name}"/></geometry></visual></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="tip"/><axis xyz="1 0 0"/></joint>
</robot>"""

CORNERS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def stl(*triangles, count=None):
    facets = b"".join(struct.pack("<12fH", 0, 0, 1, *np.ravel(t), 0) for t in triangles)
    return bytes(80) + struct.pack("<I", len(triangles) if count is None else count) + facets


def collada(indices="0 1 2", numbers="0 0 0 1 0 0 0 1 0"):
    return f"""<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
      <library_geometries><geometry id="shape"><mesh>
        <source id="points"><float_array id="p" count="9">{numbers}</float_array><technique_common>
          <accessor source="#p" count="3" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
          <param name="Z" type="float"/></accessor></technique_common></source>
        <vertices id="corners"><input semantic="POSITION" source="#points"/></vertices>
        <triangles count="1"><input semantic="VERTEX" source="#corners" offset="0"/><p>{indices}</p></triangles>
      </mesh></geometry></library_geometries>
      <library_visual_scenes><visual_scene id="scene"><node><instance_geometry url="#shape"/></node></visual_scene>
      </library_visual_scenes><scene><instance_visual_scene url="#scene"/></scene></COLLADA>""".encode()


OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
WHOLE = {
    "whole.obj": OBJ + b"f 1 2 3\n",
    "other.stl": stl(CORNERS),
    "whole.dae": collada(),
}
BROKEN = {
    "cut.stl": stl(CORNERS, CORNERS[::-1])[:-30],
    "counts.stl": stl(CORNERS, count=2**32 - 1),
    "nothing.stl": b"",
    "none.stl": stl(),
    "nan.stl": stl(np.where(CORNERS == 1.0, np.nan, 0.0)),
    "infinite.stl": stl(np.where(CORNERS == 1.0, np.inf, 0.0)),
    "point.stl": stl(np.zeros((3, 3))),
    "page.stl": b"<!DOCTYPE html><html><body>404</body></html>",
    "pointer.stl": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n",
    "noise.stl": bytes(np.random.default_rng(1).integers(0, 256, 500, dtype=np.uint8)),
    "text.stl": b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nver",
    "shape.obj": stl(CORNERS),
    "nothing.obj": b"",
    "points.obj": OBJ,
    "missing_vertex.obj": OBJ + b"f 1 2 9\n",
    "nan.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "nothing.dae": b"",
    "cut.dae": collada()[:600],
    "picture.dae": b"\x89PNG\r\n\x1a\n",
    "scene.dae": b"<COLLADA/>",
    "waits_for_ever.dae": collada("0 1 (2"),
    "waits_too.dae": collada("0 .1 2"),
    "words.dae": collada(numbers="0 0 0 1 0 0 0 one 0"),
    "missing_vertex.dae": collada("0 1 7"),
    "line.dae": collada("0 1 1"),
    "unknown.format": OBJ,
    "no_suffix": stl(CORNERS),
}


@pytest.fixture
def stick(tmp_path):
    """The robot whose second link has some contents as its mesh."""

    def load(name, contents):
        (tmp_path / "whole.stl").write_bytes(stl(CORNERS))
        if contents is not None:
            (tmp_path / name).write_bytes(contents)
        (tmp_path / "stick.urdf").write_text(STICK.format(name=name))
        return dynamics.load(tmp_path / "stick.urdf")

    return load


def is_skeleton(robot):
    """Whether the second link is drawn as the skeleton's rod and balls, and the first as its mesh."""
    shapes, _ = bodies(robot)
    assert np.allclose(sorted(shapes[0][0].vertices.tolist()), sorted((2.0 * CORNERS).tolist()))
    return len(shapes[1]) == 3


@pytest.mark.parametrize("name", WHOLE)
def test_whole_meshes_are_drawn(stick, caplog, name):
    robot = stick(name, WHOLE[name])
    shapes, missing = bodies(robot)
    assert missing == ()
    assert not is_skeleton(robot)
    assert np.allclose(np.ptp(shapes[1][0].vertices, axis=0).max(), 1.0)
    assert caplog.text == ""


@pytest.mark.parametrize("name", [*BROKEN, "absent.stl", "folder.stl"])
def test_a_skeleton_stands_in_for_a_broken_mesh_and_one_warning_names_it(stick, tmp_path, caplog, name):
    if name == "folder.stl":
        (tmp_path / name).mkdir()
    robot = stick(name, BROKEN.get(name))
    with caplog.at_level(logging.WARNING):
        drawn = viz.save_html(tmp_path / "stick.html", robot, np.zeros((2, 2)) + robot.neutral(), 0.1)
    assert drawn.missing == (name,)
    (warning,) = caplog.messages
    assert name in warning
    assert warning.startswith("stick: meshes are missing or broken")
    page = Page((tmp_path / "stick.html").read_text())
    assert f"a skeleton stands in for missing meshes: {name}<" in (tmp_path / "stick.html").read_text()
    assert all(np.isfinite(vertices(message)).all() for message in page.objects("/mayne/"))
    assert is_skeleton(robot)


def test_a_mesh_is_found_beside_the_robot_in_its_packages_and_where_it_says(stick, tmp_path, monkeypatch):
    (tmp_path / "arm" / "meshes").mkdir(parents=True)
    (tmp_path / "arm" / "meshes" / "there.stl").write_bytes(stl(CORNERS))
    monkeypatch.chdir("/")
    for name in (
        "arm/meshes/there.stl", "package://arm/meshes/there.stl", "package:///arm/meshes/there.stl",
        "model://arm/meshes/there.stl", f"{tmp_path}/arm/meshes/there.stl", f"file://{tmp_path}/arm/meshes/there.stl",
    ):  # fmt: skip
        assert stick(name, None).visuals()[1] == []


def test_of_a_robot_cut_out_of_another_what_is_left_is_drawn():
    robot = dynamics.load("talos_legs")
    shapes, missing = bodies(robot)
    assert missing == ()
    assert set(range(1, robot.model.njoints)) <= set(shapes) | {1}
