"""Free loopback ports, for processes that must be told theirs before they start.

Between finding one and using it somebody else may take it. So they come from below the range from which the kernel
takes ports for connections, and none is given out twice on this machine while the process lives that got it: that
process locks the byte of its port in a file that all share. Whoever can try again when a port is taken still does, for
there are programs that know nothing of the file.
"""

import fcntl
import os
import random
import socket
from pathlib import Path

FIRST, LAST = 20_000, 31_999
TRIES = 200
LOCKS = Path(f"/tmp/klm-ports-{os.getuid()}.lock")  # noqa: S108 - the same for all, whatever their TMPDIR is
_given: set[int] = set()
_locks: dict[int, int] = {}


class NoPortFree(Exception):
    """No port could be found."""


def free_port() -> int:
    """Return a loopback port that is free now. Raises NoPortFree."""
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port in _given or not _is_free(port) or not _lock(port):
            continue
        _given.add(port)
        return port
    raise NoPortFree(f"none of {TRIES} ports between {FIRST} and {LAST} is free on 127.0.0.1")


def _lock(port: int) -> bool:
    """Keep a port for this process. The kernel takes the lock back when the process ends, however that ends."""
    process = os.getpid()  # what a parent has locked is not locked by its fork
    if process not in _locks:
        _locks[process] = os.open(LOCKS, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(_locks[process], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
