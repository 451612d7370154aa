"""What a robot is: read from a file, its joints, its arrays for kernels, and the arguments of functions on it."""
