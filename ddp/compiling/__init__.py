"""Compiles kernels to machine code, and keeps it."""
