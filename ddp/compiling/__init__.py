"""How kernels become machine code, and stay it."""
