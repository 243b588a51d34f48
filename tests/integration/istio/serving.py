"""A gateway as Istio's with the mode MUTUAL, which serves by the gateway's Secret and routes by VirtualServices."""

import base64
import hashlib
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web

from kube_runtime import Client
from kyma_certs import KeyPair
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.istio.controller import VIRTUAL_SERVICES
from lifecycle_manager_api import names
from tests.security.events.serving import write_files

FORWARDED = "X-Forwarded-Client-Cert"


@dataclass(eq=False)
class IstioGateway:
    """Terminates TLS, names the client in a header field, and sends each request to the Service that its path has.

    `services` are the addresses of the Services by their host names.
    """

    kcp: Client
    folder: Path
    services: Mapping[str, str]
    _upstream: ssl.SSLContext = field(init=False)

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncGenerator[None, None]:
        """Serve with what the Secret has now, until the block ends."""
        secret = await self.kcp.get(SECRETS, "klm-istio-gateway", "istio-system")
        found = {key: base64.b64decode(value) for key, value in secret.data.items()}
        files = write_files(self.folder / "gateway", KeyPair(found["tls.crt"], found["tls.key"]), found["ca.crt"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files[2]))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(files[0], files[1])
        context.verify_mode = ssl.CERT_REQUIRED
        self._upstream = ssl.create_default_context(cafile=str(files[2]))
        self._upstream.verify_flags &= ~ssl.VERIFY_X509_STRICT
        runner = web.ServerRunner(web.Server(self._forward))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
            yield
        finally:
            await runner.cleanup()

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        address = await self._destination(request.path)
        if address is None:
            return web.Response(status=404)
        assert request.transport is not None
        der = request.transport.get_extra_info("ssl_object").getpeercert(True)
        headers = {name: value for name, value in request.headers.items() if name.lower() != FORWARDED.lower()}
        pem, digest = ssl.DER_cert_to_PEM_cert(der), hashlib.sha256(der).hexdigest()
        headers[FORWARDED] = f'Hash={digest};Cert="{quote(pem, safe="")}"'
        body = await request.read()
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{address}{request.path}", data=body, headers=headers, ssl=self._upstream) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())

    async def _destination(self, path: str) -> str | None:
        for each in (await self.kcp.list(VIRTUAL_SERVICES, names.KCP_NAMESPACE)).items:
            for route in each["spec"]["http"]:
                if any(path.startswith(match["uri"]["prefix"]) for match in route["match"]):
                    destination = route["route"][0]["destination"]
                    return self.services[f"{destination['host']}:{destination['port']['number']}"]
        return None


@asynccontextmanager
async def listener(port: int) -> AsyncGenerator[list[str], None]:
    """Listen for events as upstream's listeners do, without TLS; yield the paths of the requests."""
    received: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert 'Cert="' in request.headers[FORWARDED]
        received.append(request.path)
        return web.Response(status=200)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield received
    finally:
        await runner.cleanup()
