"""An HTTPS server on this machine for files of modules; the Lifecycle Manager under test trusts its CA."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from kyma_local.certificates import create_local_ca, issue_for, write_key_pair
from tests.serving import serving

_CA = create_local_ca()


@dataclass
class FileServer:
    base: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> str:
        """Add a file; return its URL."""
        self.files[name] = text
        return f"{self.base}/{name}"

    async def serve(self, request: web.Request) -> web.Response:
        name = request.match_info["path"]
        if name not in self.files:
            raise web.HTTPNotFound
        return web.Response(text=self.files[name])


def write_ca(folder: Path) -> Path:
    """Write the certificate of the server's CA; return the file."""
    path = folder / "links-ca.crt"
    path.write_bytes(_CA.certificate_pem)
    return path


@asynccontextmanager
async def file_server(folder: Path) -> AsyncIterator[FileServer]:
    server = FileServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_key_pair(issue_for(_CA, "localhost"), folder, "links"))
    async with serving(server.serve, context, name="localhost") as host:
        server.base = f"https://{host}"
        yield server
