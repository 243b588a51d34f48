"""TLS of servers on this machine, for benchmarks."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from kyma_certs import LeafRequest, create_ca, issue


def server_tls() -> tuple[ssl.SSLContext, bytes]:
    """Return the context of a server on this machine, and the CA of its certificate."""
    now = datetime.now(UTC)
    ca = create_ca("api-servers", lifetime=timedelta(days=2), now=now)
    leaf = issue(ca, LeafRequest(common_name="api-server", ip_addresses=("127.0.0.1",)), now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.write_bytes(leaf.certificate_pem + leaf.key_pem)
        context.load_cert_chain(pair)
    return context, ca.certificate_pem
