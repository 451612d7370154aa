"""Phases: steps whose contacts change from phase to phase."""
