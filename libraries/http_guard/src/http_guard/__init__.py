"""uvicorn with bounds on time, size and number: the HTTP server of the Watcher and the Lifecycle Manager.

uvicorn waits without end for the rest of a request, and accepts header fields of any size and any number of
connections. So any client that can open a connection could exhaust a server. `protocol` closes connections that are too
slow, too large or too many, `handshakes` those that do not complete TLS; `server` runs a server as part of a program,
and `memory` gives back what large buffers took.
"""

from http_guard.protocol import Bounds, GuardedProtocol, close_longest_idle
from http_guard.server import EmbeddedServer, server_for

__all__ = ["Bounds", "EmbeddedServer", "GuardedProtocol", "close_longest_idle", "server_for"]
