"""Children of forks that do a job, for tests."""

import os
import time
import warnings

PATIENCE = 60.0


def status_of_child(job):
    """Exit status of a child that does a job: 0 done, 1 raised; it is ended, with a negative one, if it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks while there are threads
        child = os.fork()
    if child == 0:
        told = 1
        try:
            job()
            told = 0
        finally:
            os._exit(told)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
