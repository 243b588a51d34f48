"""Free loopback ports, for processes that must be told theirs before they start.

Between finding one and using it somebody else may take it. So they come from below the range from which the kernel
takes ports for connections, none is given out twice by one process, and whoever uses one tries again when it is taken.
"""

import random
import socket

FIRST, LAST = 20_000, 31_999
TRIES = 200
_given: set[int] = set()


class NoPortFree(Exception):
    """No port could be found."""


def free_port() -> int:
    """Return a loopback port that is free now. Raises NoPortFree."""
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise NoPortFree(f"none of {TRIES} ports between {FIRST} and {LAST} is free on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
