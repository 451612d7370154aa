"""Many problems: batches of solves that differ in numbers, shared among processes, kept in stores that resume."""
