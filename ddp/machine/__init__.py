"""Numbers, memory, records of memory and small dense algebra, for kernels: the room that writes LLVM's instructions."""
