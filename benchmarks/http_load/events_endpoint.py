"""The event endpoint alone, as the Lifecycle Manager serves it.

Arguments: port, cert, key, CA certificate, and events per second that one runtime may send.
"""

import ssl
import sys
from pathlib import Path

import uvloop

from http_guard import Bounds
from kyma_certs import ReloadingServerContext
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, VerifiedEvent
from lifecycle_manager.process.serving import serve


async def do_nothing(_: VerifiedEvent) -> None:
    """Accept an event and do nothing."""


def main() -> None:
    """Serve until killed."""
    port, cert, key, ca, rate = sys.argv[1:6]
    trust = Path(ca).read_bytes()
    app = EventEndpoint(
        trust=lambda: trust,
        subscriber=do_nothing,
        ready=lambda: True,
        options=EndpointOptions(events_per_second=float(rate), burst=int(float(rate) * 4)),
    )
    tls = ReloadingServerContext(Path(cert), Path(key), Path(ca), clients=ssl.CERT_REQUIRED)
    uvloop.run(serve(app, "127.0.0.1", int(port), tls, bounds=Bounds(connections=2000, request_seconds=120)))


if __name__ == "__main__":
    main()
