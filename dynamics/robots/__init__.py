"""Robots: their files, joints, arrays for kernels, and the arguments of functions on them."""
