"""Small dense linear algebra in registers."""
