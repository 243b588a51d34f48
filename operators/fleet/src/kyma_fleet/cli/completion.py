"""Names from the control plane, whenever somebody presses Tab: one request, and no import that it does not need.

Importing the client of `kube_runtime` takes longer than the request. The kubeconfig is read by the same code, so
certificates, tokens and plugins work as elsewhere.
"""

import asyncio
import base64
import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kube_runtime.client.kubeconfig import Connection, connection_of_environment
from kube_runtime.client.tls import tls_context
from kube_runtime.exceptions import KubeconfigInvalid

SECONDS = 2.0
MAX_BYTES = 16 << 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What `kubectl get` asks for: without the objects about 200 bytes for each, and the first cell is the name."""


class _ApiServer(HTTPConnection):
    """A connection to an API server, through a proxy where one leads to it."""

    def __init__(self, connection: Connection) -> None:
        server = urlsplit(connection.server)
        host, port = server.hostname or "", server.port or (80 if connection.tls is None else 443)
        self._tls = None if connection.tls is None else tls_context(connection.tls)
        self._name = connection.server_name or host
        proxy = urlsplit(connection.proxy or "")
        super().__init__(proxy.hostname or host, (proxy.port or 80) if proxy.hostname else port, timeout=SECONDS)
        if proxy.hostname:
            login = base64.b64encode(
                f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
            ).decode()
            self.set_tunnel(host, port, {"Proxy-Authorization": f"Basic {login}"} if proxy.username else {})

    def connect(self) -> None:
        super().connect()
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def names_at(path: str, prefix: str, kubeconfig: Path | None, context: str | None) -> list[str]:
    """Return the names below a path that begin as typed; none where the control plane does not answer at once."""
    try:
        return [each for each in asyncio.run(_table(path, kubeconfig, context)) if each.startswith(prefix)]
    except (KubeconfigInvalid, HTTPException, OSError, ValueError):
        return []  # nobody reads an error while he types


async def _table(path: str, kubeconfig: Path | None, context: str | None) -> list[str]:
    async with asyncio.timeout(SECONDS):
        connection = await connection_of_environment(kubeconfig, context)
        headers = {"Accept": TABLE, **connection.impersonation, **await connection.credentials.headers()}
    server = _ApiServer(connection)
    try:
        server.request(
            "GET", f"{urlsplit(connection.server).path}{path}?includeObject=None&resourceVersion=0", headers=headers
        )
        answer = server.getresponse()
        table = json.loads(answer.read(MAX_BYTES)) if answer.status == HTTPStatus.OK else {}
        return [row["cells"][0] for row in table.get("rows") or ()]
    finally:
        server.close()
