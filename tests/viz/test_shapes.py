"""Solids are closed surfaces that face outwards, and edges are split only where they are sharp."""

import numpy as np
import pytest

from viz.shapes import Mesh, box, capsule, cone, cylinder, distinct, ellipsoid, grid, lathe, merge, rod, sharpen, tube


def volume(mesh: Mesh) -> float:
    """The volume inside a closed surface: positive if its triangles face outwards."""
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)


SOLIDS = {
    "box": (box(np.array([1.0, 2.0, 3.0])), 6.0),
    "cylinder": (cylinder(0.5, 2.0), np.pi / 2.0),
    "cone": (cone(0.5, 3.0), np.pi / 4.0),
    "sphere": (capsule(1.0, 0.0), 4.0 * np.pi / 3.0),
    "capsule": (capsule(1.0, 2.0), 4.0 * np.pi / 3.0 + 2.0 * np.pi),
    "ellipsoid": (ellipsoid(np.array([1.0, 2.0, 3.0])), 8.0 * np.pi),
    "rod": (rod(np.array([1.0, 0.0, 2.0]), np.array([1.0, 3.0, 2.0]), 0.5), 0.75 * np.pi),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_a_solid_encloses_its_volume_and_faces_outwards(name):
    mesh, expected = SOLIDS[name]
    assert volume(mesh) == pytest.approx(expected, rel=0.03)  # 24 sides lose 1.1 % of a circle, 2 % of a ball


@pytest.mark.parametrize("name", SOLIDS)
def test_sharpening_keeps_the_surface(name):
    mesh, _ = SOLIDS[name]
    assert volume(sharpen(mesh)) == pytest.approx(
        volume(mesh), rel=1e-5
    )  # vertices nearer than 1e-6 are welded


def test_a_box_has_three_vertices_at_every_corner_and_a_ball_one():
    assert len(sharpen(box(np.ones(3))).vertices) == 24
    assert len(sharpen(capsule(1.0, 0.0)).vertices) == 11 * 24 + 2  # rings and poles


def test_triangles_that_a_file_holds_twice_are_drawn_once():
    cube = box(np.ones(3))
    turned = cube._replace(triangles=cube.triangles[:, ::-1])
    assert len(sharpen(merge([cube, turned])).triangles) == len(cube.triangles)


def test_a_tube_follows_its_path_and_survives_standing_still():
    path = np.stack([np.cos(np.linspace(0, 3, 50)), np.sin(np.linspace(0, 3, 50)), np.zeros(50)], axis=1)
    distance = np.linalg.norm(tube(path, 0.01).vertices[:, None] - path[None], axis=-1).min(axis=1)
    assert np.allclose(distance, 0.01, atol=1e-6)
    still = tube(np.tile([1.0, 2.0, 3.0], (10, 1)), 0.01)
    assert np.allclose(still.vertices.mean(axis=0), [1.0, 2.0, 3.0])


def test_merging_keeps_every_triangle_where_it_was():
    first, second = box(np.ones(3)), lathe(np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0]))
    both = merge([first, second])
    assert volume(both) == pytest.approx(volume(first) + volume(second), rel=1e-12)


def test_a_grid_is_flat_and_passes_through_its_origin():
    mesh = grid(2.0, 0.5, 0.01, (0.5, 0.5, 0.5, 1.0))
    assert np.ptp(mesh.vertices[:, 2]) == 0.0
    assert np.abs(mesh.vertices[:, :2]).max() == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("shape", [(0, 3), (1, 2), (300, 3)])
def test_distinct_rows_are_those_that_numpy_finds(shape):
    rows = np.random.default_rng(3).integers(-2, 2, shape)
    found, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    ours = distinct(rows)
    np.testing.assert_array_equal(ours[0], first)
    np.testing.assert_array_equal(ours[1], number.reshape(-1))
    np.testing.assert_array_equal(rows[ours[0]], found)
