"""Rotations, displacements and spatial vectors, and the manifold of a tree's configurations."""
