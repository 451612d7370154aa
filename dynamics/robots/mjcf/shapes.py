"""Shapes to draw of an MJCF file: its geoms, as MuJoCo's viewer shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dynamics.robots.libraries import coal, pin
from dynamics.robots.mjcf.bodies import body_frame
from dynamics.robots.mjcf.compiling import compile_file, import_mujoco
from dynamics.robots.mjcf.states import pose

_SHOWN = 3
"""Geoms of groups before this one are shown, as in MuJoCo's viewer: those behind it are for contacts."""


def shapes(model: pin.Model, path: Path, text: bytes, colliding: bool = False) -> pin.GeometryModel:
    """The geoms of a file on the frames of its bodies: solids, meshes and their colours, no planes and no textures.

    If no moving body has a geom in the groups that MuJoCo shows, all groups are shown.
    colliding: of all groups those that collide, whether they can be seen or not.
    """
    m = compile_file(path, text).model
    shown = np.asarray(m.geom_group) < _SHOWN
    if colliding:
        shown = (np.asarray(m.geom_contype) | np.asarray(m.geom_conaffinity)) != 0
    elif not (shown & (np.asarray(m.body_weldid)[m.geom_bodyid] > 0)).any():
        shown[:] = True
    geometry = pin.GeometryModel()
    for g in np.flatnonzero(shown).tolist():
        color = np.array(m.geom_rgba[g] if m.geom_matid[g] < 0 else m.mat_rgba[m.geom_matid[g]], dtype=np.float64)
        solid = _solid(m, g)
        if solid is None or (color[3] == 0.0 and not colliding):
            continue
        frame = model.frames[body_frame(int(m.geom_bodyid[g]))]
        here = pose(m.geom_pos[g], m.geom_quat[g])
        name = f"{m.geom(g).name or 'geom'}_{g}"
        shape = pin.GeometryObject(name, frame.parentJoint, frame.placement * here, solid)
        shape.meshColor = color
        geometry.addGeometryObject(shape)
    return geometry


def _solid(m: Any, g: int) -> Any:
    """The geom as one of coal's shapes; None for what has no surface of finite size, and height fields."""
    types = import_mujoco().mjtGeom
    kind, size = int(m.geom_type[g]), np.array(m.geom_size[g])
    if kind == types.mjGEOM_SPHERE:
        return coal.Sphere(size[0])
    if kind == types.mjGEOM_CAPSULE:
        return coal.Capsule(size[0], 2.0 * size[1])
    if kind == types.mjGEOM_ELLIPSOID:
        return coal.Ellipsoid(*size)
    if kind == types.mjGEOM_CYLINDER:
        return coal.Cylinder(size[0], 2.0 * size[1])
    if kind == types.mjGEOM_BOX:
        return coal.Box(*(2.0 * size))
    if kind in (types.mjGEOM_MESH, types.mjGEOM_SDF) and m.geom_dataid[g] >= 0:
        return _mesh(m, int(m.geom_dataid[g]))
    return None


def _mesh(m: Any, k: int) -> Any:
    """Mesh k with its vertices and triangles."""
    first, face = int(m.mesh_vertadr[k]), int(m.mesh_faceadr[k])
    vertices = np.asarray(m.mesh_vert[first : first + int(m.mesh_vertnum[k])], dtype=np.float64)
    faces = np.asarray(m.mesh_face[face : face + int(m.mesh_facenum[k])])
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(faces), len(vertices))
    mesh.addVertices(vertices)
    mesh.addTriangles(faces)
    mesh.endModel()
    return mesh
