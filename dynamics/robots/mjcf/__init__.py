"""Robots of MJCF files, as MuJoCo's own compiler understands them."""
