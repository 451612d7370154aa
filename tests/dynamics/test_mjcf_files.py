"""Files that an MJCF names and copies that it asks for: what MuJoCo would follow, wait for or make without end."""

import os

import numpy as np
import pytest
from test_urdf_files import in_a_child, refusal

import dynamics

BODY = '<worldbody><body name="b"><joint axis="0 1 0"/><geom size=".1" pos=".2 0 0"/>{}</body></worldbody>'


def write(folder, name, inside):
    path = folder / name
    path.write_text(f"<mujoco>{inside}</mujoco>")
    return path


def model(file):
    return f'<asset><model name="a" file="{file}"/></asset>' + BODY.format('<attach model="a" body="b" prefix="x"/>')


def test_files_that_lead_back_to_themselves_are_refused(tmp_path):
    write(tmp_path, "b.xml", model("a.xml"))
    write(tmp_path, "c.xml", '<include file="d.xml"/>')
    write(tmp_path, "d.xml", model("c.xml"))
    (tmp_path / "more").mkdir()
    (tmp_path / "link.xml").symlink_to(write(tmp_path, "more/f.xml", model("link.xml")))
    leading = {
        "itself": model("itself.xml"),
        "a": model("b.xml"),
        "e": '<include file="c.xml"/>',
        "g": model("link.xml"),
    }
    for name, inside in leading.items():
        path = write(tmp_path, f"{name}.xml", inside)
        said = in_a_child(lambda path=path: refusal(path))
        assert said.startswith(f"ModelError: robot file '{path}': ")
        assert "the file contains itself" in said


def test_files_of_one_name_are_told_apart_as_mujoco_does(tmp_path):
    (tmp_path / "inside").mkdir()
    write(tmp_path, "inside/robot.xml", BODY.format(""))
    write(tmp_path, "inside/f.xml", '<include file="robot.xml"/>')
    assert dynamics.load(write(tmp_path, "robot.xml", model("inside/f.xml"))).nv == 2


def test_models_that_are_copied_over_and_over_are_refused(tmp_path):
    write(tmp_path, "0.xml", BODY.format(""))
    for number in range(1, 12):
        attach = "".join(f'<attach model="a" body="b" prefix="{k}"/>' for k in range(5))
        asset = f'<asset><model name="a" file="{number - 1}.xml"/></asset>'
        write(tmp_path, f"{number}.xml", asset + BODY.format(attach))
    assert "20000 elements when all copies" in in_a_child(lambda: refusal(tmp_path / "11.xml"))
    for number in range(1, 30):
        write(tmp_path, f"{number}.xml", model(f"{number - 1}.xml"))
    assert "20 files that name one another" in in_a_child(lambda: refusal(tmp_path / "29.xml"))
    many = "".join(f'<model name="m{k}" file="0.xml"/>' for k in range(400))
    path = write(tmp_path, "many.xml", f"<asset>{many}</asset>" + BODY.format(""))
    assert "at most 300 files" in in_a_child(lambda: refusal(path))


PIPES = {
    "include": '<include file="pipe"/>',
    "model": '<asset><model name="m" file="pipe"/></asset>',
    "mesh": '<asset><mesh file="pipe.obj"/></asset>',
    "mesh elsewhere": '<compiler meshdir="inside"/><asset><mesh file="deep.stl"/></asset>',
    "mesh without its path": '<compiler strippath="true"/><asset><mesh file="far/away/pipe.obj"/></asset>',
    "texture": '<asset><texture type="cube" fileup="pipe.png"/></asset>',
    "texture elsewhere": '<compiler texturedir="inside"/><asset><texture type="2d" file="deep.png"/></asset>',
    "height field": '<compiler assetdir="inside"/><asset><hfield file="deep.png" size="1 1 1 1"/></asset>',
    "skin": '<asset><skin file="pipe.skn"/></asset>',
    "flex": '<worldbody><flexcomp name="f" type="mesh" file="pipe.obj"/></worldbody>',
    "of an included file": '<include file="inside/more.xml"/>',
}  # fmt: skip


@pytest.mark.parametrize("case", PIPES)
def test_pipes_and_devices_that_a_file_names_are_refused(tmp_path, case):
    (tmp_path / "inside").mkdir()
    for name in ("pipe", "pipe.obj", "pipe.png", "pipe.skn", "inside/deep.stl", "inside/deep.png"):
        os.mkfifo(tmp_path / name)
    write(tmp_path, "inside/more.xml", '<asset><mesh file="deep.stl"/></asset>')
    path = write(tmp_path, "robot.xml", PIPES[case] + BODY.format(""))
    said = in_a_child(lambda: refusal(path))
    assert said.startswith(f"ModelError: robot file '{path}': <")
    assert "expected a file, got a device, a pipe or a socket" in said
    assert said.count("robot file") == 1


BOMBS = {
    "replicate": '<replicate count="2000">' * 3 + '<site size=".1"/>' + "</replicate>" * 3,
    "replicated composite": '<replicate count="100"><composite type="cable" count="1000 1 1"/></replicate>',
    "flex": '<flexcomp name="f" type="grid" count="100 100 100" spacing=".1 .1 .1"/>',
    "replicated file": '<replicate count="9000"><include file="part.xml"/></replicate>',
}


@pytest.mark.parametrize("case", BOMBS)
def test_copies_without_number_are_refused(tmp_path, case):
    write(tmp_path, "part.xml", '<site size=".1"/><site size=".2"/>')
    path = write(tmp_path, "robot.xml", BODY.format(BOMBS[case]))
    assert "at most 20000 elements when all copies are made" in in_a_child(lambda: refusal(path))


@pytest.mark.parametrize(
    "asset",
    ['<hfield name="h" nrow="60000" ncol="60000" size="1 1 1 1"/>',
     '<texture name="t" type="2d" builtin="flat" width="60000" height="60000"/>'],
)  # fmt: skip
def test_grids_without_number_are_refused(asset):
    said = in_a_child(lambda: refusal(f"<mujoco><asset>{asset}</asset>{BODY.format('')}</mujoco>"))
    assert "expected a grid of at most 67108864 numbers, got 3600000000" in said


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16"])
def test_names_are_those_of_the_encoding_that_a_file_declares(tmp_path, encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<mujoco>{BODY.format("")}</mujoco>'
    text = text.replace("<joint", '<joint name="épaule" frictionloss="1"').replace("<mujoco>", '<mujoco model="é">')
    path = tmp_path / "robot.xml"
    path.write_bytes(text.encode(encoding))
    for source in (path, text):
        robot = dynamics.load(source)
        assert (robot.name, robot.joint_names) == ("é", ["épaule"])
        np.testing.assert_array_equal(len(robot.visuals()[0].geometryObjects), 1)


def test_a_named_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "part.xml").write_bytes('<?xml version="1.0" encoding="latin-1"?><a><!-- é --></a>'.encode("latin-1"))
    assert "expected UTF-8, got another" in refusal(write(tmp_path, "robot.xml", '<include file="part.xml"/>'))


def test_the_root_joint_has_a_name_that_is_free():
    arm = '<body name="a"><geom size=".1"/><body name="b"><joint name="root_joint"/><geom size=".1"/></body></body>'
    robot = dynamics.load(f"<mujoco><worldbody>{arm}</worldbody></mujoco>", root="free-flyer")
    assert robot.joint_names == ["world_root_joint", "root_joint"]


def test_a_path_that_mujoco_cannot_take_is_refused(tmp_path):
    path = tmp_path / os.fsdecode(b"\x80.xml")
    path.write_text(f"<mujoco>{BODY.format('')}</mujoco>")
    assert "expected a path that can be printed" in refusal(path)
