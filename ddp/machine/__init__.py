"""Numbers, memory and records of memory, for kernels: the room that writes LLVM's instructions."""
