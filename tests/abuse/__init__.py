"""Lists of hostile inputs over every public function and command, tried in forked children; `make abuse` runs all.

hostile.py: the values.   of_*.py: the functions of each room, with valid arguments, into whose places they go one at a
time.   children.py: forks.   verdict.py: what may come of it.   interrupts.py: Ctrl-C.
"""
