"""Robots: their files, their joints, their arrays for kernels."""
