"""What can be done to the endpoint below HTTP's good manners: bytes on a TLS connection of a real Watcher."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kyma_certs import CAs
from lifecycle_manager.events.endpoint import EndpointOptions
from tests.security.events.serving import ServedEndpoint, leaf, new_ca, write_files
from tests.security.events.test_attacks import BODY, PATH, Message

CA = new_ca()
MINE = leaf(CA, "mine")


def request(endpoint: ServedEndpoint, *more: str, body: bytes = BODY, version: str = "1.1") -> bytes:
    """Return a well signed request, with more header lines."""
    url = f"https://{endpoint.address}{PATH}"
    fields = [f"{name}: {value}" for name, value in Message(pair=MINE, shown=MINE, signed_url=url).fields()]
    lines = (f"POST {PATH} HTTP/{version}", f"Host: {endpoint.address}", *fields, *more)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
ATTACKS: dict[str, Callable[[ServedEndpoint], bytes]] = {
    "two lengths": lambda it: request(it, LENGTH, "Content-Length: 1"),
    "a length and chunks": lambda it: request(it, LENGTH, CHUNKED, body=chunked(BODY)),
    "chunks and a length": lambda it: request(it, CHUNKED, LENGTH, body=chunked(BODY)),
    "chunks in disguise": lambda it: request(it, "Transfer-Encoding: xchunked", body=chunked(BODY)),
    "a length with a sign": lambda it: request(it, f"Content-Length: +{len(BODY)}"),
    "a length below nothing": lambda it: request(it, "Content-Length: -1"),
    "a chunk of no number": lambda it: request(it, CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "a blank before the colon": lambda it: request(it, LENGTH, "Client-Cert : :AAAA:"),
    "a NUL in a field": lambda it: request(it, LENGTH, "X-Note: a\0b"),
    "a bare newline in a field": lambda it: request(it, LENGTH, "X-Note: a\nSignature: kyma=:AAAA:"),
    "a field without a name": lambda it: request(it, LENGTH, ": value"),
    "a second Host": lambda it: request(it, LENGTH, "Host: elsewhere"),
    "no HTTP at all": lambda _: b"\x00\x01\x02\x03 nothing of the kind\r\n\r\n",
    "HTTP/2 without being asked": lambda _: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a proxy's CONNECT": lambda it: f"CONNECT {it.address} HTTP/1.1\r\nHost: {it.address}\r\n\r\n".encode(),
    "half a body": lambda it: request(it, f"Content-Length: {len(BODY) * 2}"),
}


async def exchange(endpoint: ServedEndpoint, sent: bytes, *, within: float = 1.5) -> bytes:
    """Send bytes as the Watcher `mine`; return what comes back within some time."""
    cert, key, _ = write_files(endpoint.folder / "wire", MINE, CA.certificate_pem)
    context = ssl.create_default_context(cadata=CA.certificate_pem.decode())
    context.load_cert_chain(cert, key)
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=context)
    try:
        writer.write(sent)
        await writer.drain()
        async with asyncio.timeout(within):
            return await reader.read(65536)
    except TimeoutError:
        return b""
    finally:
        writer.close()


def served(folder: Path) -> ServedEndpoint:
    return ServedEndpoint(folder, CAs(CA), EndpointOptions(require_peer=True))


@pytest.mark.parametrize("attack", ATTACKS)
async def test_invalid_request_reaches_no_subscriber(tmp_path: Path, attack: str) -> None:
    endpoint = served(tmp_path)
    async with endpoint.served():
        answer = await exchange(endpoint, ATTACKS[attack](endpoint))
        assert not answer.startswith(b"HTTP/1.1 200"), answer
        assert endpoint.taken == []
        good = await exchange(endpoint, request(endpoint, LENGTH, "Connection: close"), within=60)
        assert good.startswith(b"HTTP/1.1 200"), "the endpoint goes on"


async def test_smuggled_request_needs_its_own_signature(tmp_path: Path) -> None:
    endpoint = served(tmp_path)
    async with endpoint.served():
        behind = (
            f"POST {PATH} HTTP/1.1\r\nHost: {endpoint.address}\r\nContent-Type: application/json\r\n{LENGTH}\r\n\r\n"
        )
        await exchange(endpoint, request(endpoint, LENGTH) + behind.encode() + BODY)
        assert len(endpoint.taken) <= 1
