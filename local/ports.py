"""Free loopback ports, for processes that must be told theirs before they start.

Between finding one and using it somebody else may take it. So they come from below the range from which the kernel
takes ports for connections, and each stays bound by this process for as long as that runs: nobody else who looks for
one finds it free, also in another process. A server can listen on it all the same, as servers do with SO_REUSEADDR; and
whoever uses one tries again when it is taken by one who did not look.
"""

import random
import socket

FIRST, LAST = 20_000, 31_999
TRIES = 200
_held: dict[int, int] = {}  # a port, and the descriptor of the socket that is bound to it and never listens


class NoPortFree(Exception):
    """No port could be found."""


def free_port() -> int:
    """Return a loopback port that is free now. Raises NoPortFree."""
    for port in random.sample(range(FIRST, LAST + 1), TRIES):
        if port not in _held and _hold(port):
            return port
    raise NoPortFree(f"none of {TRIES} ports between {FIRST} and {LAST} is free on 127.0.0.1")


def _hold(port: int) -> bool:
    """Bind a socket to a port that nobody else is bound to, and keep it; return whether that could be done."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))  # not yet with SO_REUSEADDR, or it would be free to many
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _held[port] = holder.detach()
    return True
