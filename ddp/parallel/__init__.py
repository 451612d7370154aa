"""Derivatives by one thread, several, or processes."""
