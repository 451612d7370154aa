"""COLLADA files are read as Pinocchio reads them, with their colours."""

from pathlib import Path

import coal
import numpy as np
import pytest
from example_robot_data import getModelPath

import dynamics
from viz import collada
from viz.bodies import bodies

FILES = [
    "ur_description/meshes/ur5/visual/shoulder.dae",
    "hyq_description/meshes/trunk/trunk.dae",
    "panda_description/meshes/visual/link7.dae",
    "icub_description/meshes/upmc/visual/icub_chest.dae",
]

SMALL = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="millimeter" meter="0.001"/><up_axis>Z_UP</up_axis></asset>
  <library_effects><effect id="red-effect"><profile_COMMON><technique sid="common"><lambert>
    <diffuse><color>1 0 0 1</color></diffuse>
    </lambert></technique></profile_COMMON></effect></library_effects>
  <library_materials><material id="red"><instance_effect url="#red-effect"/></material></library_materials>
  <library_geometries><geometry id="shape"><mesh>
    <source id="points"><float_array id="p" count="12">0 0 0 1000 0 0 1000 1000 0 0 1000 0</float_array>
    </source>
    <vertices id="corners"><input semantic="POSITION" source="#points"/></vertices>
    {faces}
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="scene"><node>
    <translate>0 0 500</translate><rotate>0 0 1 90</rotate><scale>2 2 2</scale>
    <instance_geometry url="#shape"><bind_material><technique_common>
      <instance_material symbol="paint" target="#red"/></technique_common></bind_material></instance_geometry>
  </node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#scene"/></scene>
</COLLADA>"""

VERTEX = '<input semantic="VERTEX" source="#corners" offset="0"/>'
FACES = {
    "triangles": f'<triangles count="2" material="paint">{VERTEX}<p>0 1 2 0 2 3</p></triangles>',
    "polylist": f'<polylist count="1" material="paint">{VERTEX}<vcount>4</vcount><p>0 1 2 3</p></polylist>',
    "polygons": f'<polygons count="1" material="paint">{VERTEX}<p>0 1 2 3</p></polygons>',
    "interleaved": f'<triangles count="2" material="paint">{VERTEX}'
    '<input semantic="NORMAL" source="#points" offset="1"/>'
    "<p>0 9 1 9 2 9 0 9 2 9 3 9</p></triangles>",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_size_that_pinocchio_sees(name):
    folder = Path(getModelPath(name))
    path = folder / name
    points = np.concatenate([mesh.vertices[mesh.triangles.ravel()] for mesh in collada.read(path)])
    seen = coal.MeshLoader().load(str(path), np.ones(3)).vertices()
    assert np.allclose(
        [points.min(axis=0), points.max(axis=0)], [seen.min(axis=0), seen.max(axis=0)], atol=1e-6
    )


@pytest.mark.parametrize("kind", FACES)
def test_nodes_and_colours_are_applied(tmp_path, kind):
    path = tmp_path / "square.dae"
    path.write_text(SMALL.format(faces=FACES[kind]))
    (mesh,) = collada.read(path)
    assert mesh.color == (1.0, 0.0, 0.0, 1.0)
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert np.allclose(mesh.vertices, [[0, 0, 500], [0, 2000, 500], [-2000, 2000, 500], [-2000, 0, 500]])


def test_shapes_of_robots_have_the_unit_of_their_files(tmp_path):
    access = '<technique_common><accessor source="#p" count="4" stride="3">{}</accessor></technique_common>'
    access = access.format("".join(f'<param name="{axis}" type="float"/>' for axis in "XYZ"))
    text = SMALL.format(faces=FACES["triangles"]).replace("</float_array>", "</float_array>" + access)
    (tmp_path / "square.dae").write_text(text)
    shape = '<geometry><mesh filename="square.dae" scale="1 3 1"/></geometry>'
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "r.urdf"
    path.write_text(
        f'<robot name="r"><link name="a"/><link name="b">{inertial}<visual>{shape}</visual></link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>'
    )
    robot = dynamics.load(path)
    (drawn,) = bodies(robot)[0][1]
    assert drawn.color == (1.0, 0.0, 0.0, 1.0)
    for points in (drawn.vertices, robot.visuals()[0].geometryObjects[0].geometry.vertices()):
        assert np.allclose([points.min(axis=0), points.max(axis=0)], [[-2, 0, 0.5], [0, 6, 0.5]], atol=1e-6)
    of_a_part = '<geometry id="shape"><asset><unit meter="1"/></asset>'
    (tmp_path / "square.dae").write_text(text.replace('<geometry id="shape">', of_a_part))
    assert np.allclose(bodies(dynamics.load(path))[0][1][0].vertices, drawn.vertices)
    (tmp_path / "square.dae").write_text(text.replace('meter="0.001"', 'meter="0"'))
    assert dynamics.load(path).visuals()[1] == ["square.dae"]


@pytest.mark.parametrize(
    "text", ["", "<COLLADA/>", SMALL.format(faces="<tristrips/>"), SMALL.format(faces="")]
)
def test_what_cannot_be_read_is_said(tmp_path, text):
    path = tmp_path / "bad.dae"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.dae"):
        collada.read(path)
