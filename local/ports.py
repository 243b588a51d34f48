"""Free loopback ports, for processes that must be told theirs before they start.

Between finding one and using it somebody else may take it. So they come from below the range from which the kernel
takes ports for connections, none is given out twice by one process, and whoever uses one tries again when it is taken.
Other processes that look for ports here see from a UDP socket of the same number, which nobody needs, that a port is
given out already.
"""

import os
import random
import socket
from collections import deque

FIRST, LAST = 20_000, 31_999
TRIES = 200
MOST_CLAIMS = 300
_given: set[int] = set()
_claims: deque[int] = deque()  # file descriptors


class NoPortFree(Exception):
    """No port could be found."""


def free_port() -> int:
    """Return a loopback port that is free now. Raises NoPortFree."""
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port not in _given and _is_free(port) and _claim(port):
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


def _claim(port: int) -> bool:
    """Keep a port from other processes: until this one ends, or has been given so many that it is long in use."""
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        claim.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return False
    _claims.append(claim.detach())
    while len(_claims) > MOST_CLAIMS:
        os.close(_claims.popleft())
    return True
