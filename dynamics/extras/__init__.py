"""Functions of other libraries as systems: each module needs its own library, and is imported where it is wanted."""
