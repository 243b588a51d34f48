"""uvicorn with the bounds that it lacks: what the Watcher and the Lifecycle Manager serve HTTP with.

uvicorn waits for ever for the rest of a request, takes header fields of any size and any number of connections. Whoever
can open a connection could so keep a server busy with nothing. `protocol` closes what is too slow, too large or too
many, and `handshakes` what does not get that far; `server` is a server that is part of a program.
"""

from http_guard.protocol import Bounds, GuardedProtocol
from http_guard.server import EmbeddedServer, server_for

__all__ = ["Bounds", "EmbeddedServer", "GuardedProtocol", "server_for"]
