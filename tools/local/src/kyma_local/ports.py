"""Free loopback ports, for processes that need their port before they start.

Another process may take a port between its choice and its use. So ports are below the range of the kernel's ephemeral
ports, and no port is given out twice on this machine while the process that got it runs: it locks the byte of its port
in a shared file. Callers should still retry with another port, since other programs do not know the file.
"""

import fcntl
import os
import random
import socket
from pathlib import Path

FIRST, LAST = 20_000, 31_999
TRIES = 200
LOCKS = Path(f"/tmp/klm-ports-{os.getuid()}.lock")  # noqa: S108 - the same for all processes, whatever TMPDIR is
_reserved: set[int] = set()
_locks: dict[int, int] = {}


class NoPortFree(Exception):
    """No port could be found."""


def free_port() -> int:
    """Return a free loopback port, reserved for this process. Raises NoPortFree."""
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port in _reserved or not _is_free(port) or not _lock(port):
            continue
        _reserved.add(port)
        return port
    raise NoPortFree(f"none of {TRIES} ports between {FIRST} and {LAST} is free on 127.0.0.1")


def _lock(port: int) -> bool:
    """Reserve a port for this process. The kernel releases the lock when the process ends."""
    process = os.getpid()  # a fork does not inherit the locks of its parent
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
