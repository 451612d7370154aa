"""Elastic rods as joints of a tree: maps of their segments, their recursions, and their forces."""
