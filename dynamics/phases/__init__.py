"""Hybrid systems: steps whose contacts change from phase to phase."""
