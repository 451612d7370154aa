"""Mesh files that end native parsers are told apart from those that can be drawn; shapes of every kind of source."""

import os
import pickle

import numpy as np
import pinocchio as pin
import pytest
from test_urdf_files import in_a_child
from thorough import cases

import dynamics
import viz
from ddp.errors import ModelError
from dynamics.robots import loading, meshes

TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
COLLADA = """<?xml version="1.0"?>{doctype}
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset><up_axis>Z_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array>
<technique_common><accessor source="#a" count="3" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source><vertices id="v">
<input semantic="POSITION" source="#p"/></vertices><triangles count="1">
<input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles></mesh></geometry></library_geometries>
<library_nodes>{nodes}</library_nodes>
<library_visual_scenes><visual_scene id="s">{scene}</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
DRAWN = '<instance_geometry url="#g"/>'


def collada(scene=f'<node id="n">{DRAWN}</node>', nodes="", doctype=""):
    return COLLADA.format(scene=scene, nodes=nodes, doctype=doctype)


def link_of(number, length, times):
    """One of ``length`` nodes in a chain, each of which draws the next some times."""
    inside = DRAWN if number == length else f'<instance_node url="#n{number + 1}"/>' * times
    return f'<node id="n{number}">{inside}</node>'


def instances(length, times):
    nodes = "".join(link_of(number, length, times) for number in range(1, length + 1))
    return collada('<node><instance_node url="#n1"/></node>', nodes)


FATAL = {
    "itself.dae": (collada(f'<node id="n">{DRAWN}<instance_node url="#n"/></node>'), "contains itself"),
    "by name.dae": (collada(f'<node name="n">{DRAWN}<instance_node url="#n"/></node>'), "contains itself"),
    "in a ring.dae": (
        collada('<node><instance_node url="#a"/></node>', '<node id="a"><node><instance_node url="#b"/></node></node>'
                '<node id="b"><instance_node url="#a"/></node>'), "contains itself",
    ),
    "deep.dae": (collada("<node>" * 20_000 + DRAWN + "</node>" * 20_000), "at most 500 elements one inside of another"),
    "long.dae": (instances(20_000, 1), "500 one inside of another"),
    "doubling.dae": (instances(30, 2), "at most 100000 nodes"),
    "entities.dae": (collada(doctype='<!DOCTYPE C [<!ENTITY a "b">]>'), "no entities of its own"),
    "cut.dae": (collada()[:-200], "not well-formed XML"),
    "itself.foo": (collada(f'<node id="n">{DRAWN}<instance_node url="#n"/></node>'), "a format that is not read: .foo"),
    "index.ply": (
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n3 0 0 99999999\n",
        "a format that is not read: .ply",
    ),
}  # fmt: skip


def urdf(*filenames):
    shapes = "".join(f'<visual><geometry><mesh filename="{name}"/></geometry></visual>' for name in filenames)
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    return (
        f'<robot name="meshed"><link name="base">{shapes}</link><link name="tip">{inertial}</link>'
        '<joint name="j" type="continuous"><parent link="base"/><child link="tip"/></joint></robot>'
    )


def drawn(path):
    robot = dynamics.load(path)
    shapes, missing = robot.visuals()
    viz.save_html(path.with_suffix(".html"), robot, np.repeat(robot.q0[None], 2, axis=0), 0.1)
    return f"{len(shapes.geometryObjects)} {missing}"


@pytest.mark.parametrize("name", FATAL)
def test_a_mesh_that_ends_native_parsers_counts_as_missing(name, tmp_path):
    text, reason = FATAL[name]
    (tmp_path / name).write_text(text)
    (tmp_path / "good.obj").write_text(TRIANGLE)
    path = tmp_path / "robot.urdf"
    path.write_text(urdf(name, "good.obj"))
    said = in_a_child(lambda: drawn(path))
    assert said == f"1 ['{name}']"
    assert reason in meshes.find(name, str(path), ())[1]


INSIDE = collada("<node>" * 400 + DRAWN + "</node>" * 400)


@pytest.mark.parametrize("text", [collada(), instances(400, 1), instances(10, 2), INSIDE])
def test_nodes_that_are_drawn_several_times_or_deep_inside_are_drawn(text, tmp_path):
    (tmp_path / "mesh.dae").write_text(text)
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("mesh.dae"))
    assert in_a_child(lambda: drawn(path)) == "1 []"


def test_pipes_devices_folders_and_what_may_not_be_read_count_as_missing(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "folder.stl").mkdir()
    (tmp_path / "device.stl").symlink_to("/dev/zero")
    (tmp_path / "good.obj").write_text(TRIANGLE)
    with open(tmp_path / "huge.stl", "wb") as file:
        file.truncate(2**36)
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("pipe.stl", "folder.stl", "device.stl", "none.stl", "good.obj", "huge.stl", "a\x7f" * 3000))
    shapes, missing = dynamics.load(path).visuals()
    assert len(shapes.geometryObjects) == 1
    absent = ["pipe.stl", "folder.stl", "device.stl", "none.stl"]
    assert missing == [*absent, "huge.stl", "a\x7f" * 3000]
    assert meshes.find("huge.stl", str(path), ())[1] == "more than 512 MB"
    monkeypatch.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert "Permission denied" in meshes.find("good.obj", str(path), ())[1]


GLTF = (
    '{"asset":{"version":"2.0"},"scenes":[{"nodes":[0]}],"nodes":[{"mesh":0}],"buffers":[{"\\u0075ri":"%s","byteLength"'
    ':36}],"bufferViews":[{"buffer":0,"byteLength":36}],"accessors":[{"bufferView":0,"componentType":5126,"count":3,'
    '"type":"VEC3"}],"meshes":[{"primitives":[{"attributes":{"POSITION":0}}]}]}'
)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.obj", f"mtllib pipe\n{TRIANGLE}"), ("b.obj", f"mtllib \\\npipe\r{TRIANGLE}"),
     ("named.obj", f"mtllib absent\n{TRIANGLE}"), ("c.gltf", GLTF % "pipe"), ("d.gltf", GLTF % "pi%70e")],
)  # fmt: skip
def test_meshes_that_name_pipes_count_as_missing(tmp_path, name, text):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "named.mtl")
    (tmp_path / name).write_text(text)
    (tmp_path / "robot.urdf").write_text(urdf(name))
    assert in_a_child(lambda: drawn(tmp_path / "robot.urdf")) == f"0 ['{name}']"


def test_meshes_that_name_files_are_drawn(tmp_path):
    (tmp_path / "a.obj").write_text(f"mtllib a.mtl\n{TRIANGLE}")
    (tmp_path / "a.mtl").write_text("newmtl red\n")
    (tmp_path / "c.gltf").write_text(GLTF % "c.bin")
    (tmp_path / "c.bin").write_bytes(np.array([0, 0, 0, 1, 0, 0, 0, 1, 0], dtype=np.float32).tobytes())
    (tmp_path / "robot.urdf").write_text(urdf("a.obj", "c.gltf"))
    assert in_a_child(lambda: drawn(tmp_path / "robot.urdf")) == "2 []"


def test_meshes_are_found_beside_the_file_in_packages_and_of_a_text_in_the_working_folder(tmp_path, monkeypatch):
    folder = tmp_path / "robot_description"
    (folder / "urdf").mkdir(parents=True)
    (folder / "mesh.obj").write_text(TRIANGLE)
    names = ["../mesh.obj", "package://robot_description/mesh.obj", f"file://{folder}/mesh.obj", f"{folder}/mesh.obj"]
    path = folder / "urdf" / "robot.urdf"
    path.write_text(urdf(*names, "mesh.obj"))
    shapes, missing = dynamics.load(path).visuals()
    assert (len(shapes.geometryObjects), missing) == (4, ["mesh.obj"])
    path = folder / "robot.urdf"
    path.write_text(urdf(*names[1:], "mesh.obj"))
    assert dynamics.load(path).visuals()[1] == []
    monkeypatch.chdir(folder)
    assert dynamics.load(urdf("mesh.obj")).visuals()[1] == []
    assert dynamics.load(urdf("../mesh.obj")).visuals()[1] == ["../mesh.obj"]


def test_meshes_of_a_file_that_was_loaded_by_a_relative_path_are_found_from_other_folders(tmp_path, monkeypatch):
    (tmp_path / "mesh.obj").write_text(TRIANGLE)
    (tmp_path / "robot.urdf").write_text(urdf("mesh.obj"))
    (tmp_path / "solid.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    (tmp_path / "robot.xml").write_text("""<mujoco><asset><mesh name="m" file="solid.obj"/></asset><worldbody><body>
        <joint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>""")
    monkeypatch.chdir(tmp_path)
    robots = [dynamics.load(name) for name in ("robot.urdf", "robot.xml")]
    monkeypatch.chdir("/")
    assert [(len(robot.visuals()[0].geometryObjects), robot.visuals()[1]) for robot in robots] == [(1, [])] * 2


def test_a_mesh_is_read_once(tmp_path, monkeypatch):
    """By a loader that goes by the time of the file, which is written again before the shapes are put together."""
    mesh, path = tmp_path / "mesh.obj", tmp_path / "robot.urdf"
    mesh.write_text(TRIANGLE)
    path.write_text(urdf("mesh.obj"))
    build, read = pin.buildGeomFromUrdfString, mesh.stat()

    def together(model, text, *arguments, **options):
        if "<joint" in text:
            mesh.write_text("no triangles")
            os.utime(mesh, ns=(read.st_atime_ns, read.st_mtime_ns))
        return build(model, text, *arguments, **options)

    monkeypatch.setattr(loading.pin, "buildGeomFromUrdfString", together)
    (shape,) = dynamics.load(path).visuals()[0].geometryObjects
    assert mesh.read_text() == "no triangles"
    assert np.array_equal(shape.geometry.vertices(), [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_a_robot_wrapper_keeps_its_posture_and_its_shapes(tmp_path):
    (tmp_path / "mesh.obj").write_text(TRIANGLE)
    path = tmp_path / "robot.urdf"
    path.write_text(urdf("mesh.obj"))
    wrapper = pin.RobotWrapper.BuildFromURDF(str(path), [str(tmp_path)], pin.JointModelFreeFlyer())
    plain = dynamics.load(wrapper)
    np.testing.assert_array_equal(plain.q0, [0, 0, 0, 0, 0, 0, 1, 1, 0])
    wrapper.q0 = pin.integrate(wrapper.model, wrapper.q0, np.full(7, 0.3))
    posed = pickle.loads(pickle.dumps(dynamics.load(wrapper)))
    np.testing.assert_array_equal(posed.q0, wrapper.q0)
    assert [shape.name for shape in posed.visuals()[0].geometryObjects] == ["base_0"]
    viz.save_html(tmp_path / "motion.html", posed, np.stack([posed.q0, posed.q0]), 0.1)
    assert dynamics.load(pin.RobotWrapper(wrapper.model)).nv == 7
    with pytest.raises(ModelError, match=r"a pinocchio\.RobotWrapper already has its root joint"):
        dynamics.load(wrapper, root="fixed")


@pytest.mark.parametrize(
    ("q0", "words"),
    [([0, 0, 0], "expected shape"), ([0, 0, 0, 0, 0, 0, np.nan, 1, 0], "expected finite numbers, got nan"),
     ([0, 0, 0, 0, 0, 0, 2, 1, 0], "of length one, got"), (["a"], "expected real numbers")],
)  # fmt: skip
def test_a_robot_wrapper_with_a_posture_that_is_none_is_refused(q0, words):
    wrapper = pin.RobotWrapper(dynamics.load(urdf(), root="free-flyer").model)
    wrapper.q0 = np.array(q0)
    with pytest.raises(ModelError, match=f"^q0 of the RobotWrapper: .*{words}"):
        dynamics.load(wrapper)


@pytest.mark.parametrize("name", cases(["talos_legs", "talos_full", "romeo"], ["talos_legs", "romeo"]))
def test_robots_that_were_not_drawn_are(name, tmp_path):
    robot = dynamics.load(name, massless="fixed")
    shapes, missing = robot.visuals()
    assert len(shapes.geometryObjects) >= 13
    assert missing == []
    viz.save_html(tmp_path / "robot.html", robot, np.stack([robot.q0, robot.q0]), 0.1)
