"""Pulls layers and manifests from OCI registries: one request, and two more where the registry requires a token.

Existing packages block threads or need a container engine, and only reading of the distribution protocol is needed.
Content is hashed while it arrives, and bounded in size and time.
"""

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec

from lifecycle_manager.oci.credentials import Login
from lifecycle_manager.oci.hosts import ANY_HOST, AllowedHosts
from lifecycle_manager.oci.problems import (
    AccessRefused,
    DigestMismatch,
    LayerNotFound,
    LayerTooLarge,
    LayerTruncated,
    RegistryBusy,
    SourceError,
    SourceNotAllowed,
    SourceUnreachable,
)
from lifecycle_manager.oci.references import Artifact, Layer, is_this_machine

MAX_BYTES = 16 * 1024 * 1024
MAX_TOKEN_BYTES = 64 * 1024
MAX_REDIRECTS = 3
TIMEOUT_SECONDS = 60.0
BUSY_SECONDS = 30.0
MAX_BUSY_SECONDS = 600.0
CHUNK = 64 * 1024
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
Wanted = Layer | Artifact
_PARAMETER = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


@dataclass(eq=False)
class Registries:
    """Pulls layers from `allowed` hosts, at most `concurrency` at once. Close it. `trust` is the machine's own unless
    given."""

    trust: ssl.SSLContext | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    concurrency: int = 8
    allowed: AllowedHosts = ANY_HOST
    _session: aiohttp.ClientSession | None = field(default=None, init=False)
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.concurrency)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def pull(self, wanted: Wanted, login: Login | None = None) -> bytes:
        """Return the bytes of a layer, which match its digest, or of a manifest. Raises SourceError."""
        async with self._places:
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return await self._pull(wanted, login)
            except aiohttp.ClientPayloadError as error:
                raise LayerTruncated(f"{wanted} was truncated: {error}") from None
            except TimeoutError:
                raise SourceUnreachable(
                    f"{wanted.host} did not send {wanted} within {self.timeout_seconds:g} s"
                ) from None
            except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
                raise SourceUnreachable(
                    f"{wanted.host} can't be reached: {str(error) or type(error).__name__}"
                ) from None

    async def _pull(self, wanted: Wanted, login: Login | None) -> bytes:
        async with self._asked(wanted, wanted.url, None) as response:
            if response.status != 401:
                return await _content(wanted, response)
            challenge = response.headers.getall("WWW-Authenticate", [])
        authorization = await self._authorization(wanted, challenge, login)
        async with self._asked(wanted, wanted.url, authorization) as response:
            return await _content(wanted, response)

    @asynccontextmanager
    async def _asked(
        self, wanted: Wanted, url: str, authorization: str | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Request a file and follow redirects. Credentials are sent to the first host only."""
        origin = urlsplit(url).netloc
        for _ in range(MAX_REDIRECTS + 1):
            self._check(wanted, url)
            known = authorization is not None and urlsplit(url).netloc == origin
            headers = {"Accept": MANIFEST} if isinstance(wanted, Artifact) else {}
            headers["Accept-Encoding"] = "identity"
            if known and authorization is not None:
                headers["Authorization"] = authorization
            async with self._open().get(url, headers=headers, allow_redirects=False) as response:
                if response.status == 401 and urlsplit(url).netloc != origin:
                    there = urlsplit(url).netloc
                    raise AccessRefused(f"{wanted.host} redirects {wanted} to {there}, which asks for credentials")
                if response.status not in {301, 302, 303, 307, 308} or "Location" not in response.headers:
                    yield response
                    return
                url = urljoin(url, response.headers["Location"])
        raise SourceUnreachable(f"{wanted.host} redirects more than {MAX_REDIRECTS} times")

    async def _authorization(self, wanted: Wanted, challenges: list[str], login: Login | None) -> str:
        for challenge in challenges:
            scheme, _, rest = challenge.partition(" ")
            if scheme.lower() == "bearer":
                return f"Bearer {await self._token(wanted, dict(_PARAMETER.findall(rest)), login)}"
            if scheme.lower() == "basic" and login is not None:
                return login.basic
        needs = "needs credentials" if login is None else "asks for credentials of a kind that is not known"
        raise AccessRefused(f"{wanted.host} {needs} for {wanted.path}")

    async def _token(self, wanted: Wanted, asked: dict[str, str], login: Login | None) -> str:
        realm = asked.get("realm", "")
        scope = asked.get("scope") or f"repository:{wanted.path}:pull"
        query = {"scope": scope} | ({"service": asked["service"]} if "service" in asked else {})
        self._check(wanted, realm)
        headers = {"Authorization": login.basic} if login is not None else {}
        async with self._open().get(realm, params=query, headers=headers, allow_redirects=False) as response:
            _refuse(wanted, response)
            too_large = f"{response.url.host} sends a token for {wanted} of more than {MAX_TOKEN_BYTES} bytes"
            body, _ = await _received(response, MAX_TOKEN_BYTES, SourceUnreachable(too_large))
        try:
            given = msgspec.json.decode(body, type=_Token)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise SourceUnreachable(f"{urlsplit(realm).netloc} sends no readable token") from None
        return given.token or given.access_token

    def _check(self, wanted: Wanted, url: str) -> None:
        """Refuse a URL that a registry leads to: only one for development, without TLS itself, may lead to another."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (wanted.scheme == parts.scheme == "http" and is_this_machine(parts.netloc)):
            raise SourceUnreachable(f"{wanted.host} leads to {url!r}, which is not https")
        if not self.allowed.allow(url):
            raise SourceNotAllowed(f"{wanted} needs {parts.netloc}, which is not among the allowed-source-hosts")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self.concurrency * 2, ssl=self.trust or ssl.create_default_context())
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(sock_connect=10, sock_read=20)
            )
        return self._session


async def _content(wanted: Wanted, response: aiohttp.ClientResponse) -> bytes:
    _refuse(wanted, response)
    too_large = LayerTooLarge(f"{wanted} has more than {MAX_BYTES} bytes")
    if (response.content_length or 0) > MAX_BYTES:
        raise too_large
    content, digest = await _received(response, MAX_BYTES, too_large)
    if isinstance(wanted, Layer) and digest != wanted.digest:
        raise DigestMismatch(f"{wanted}: the content has the digest {digest}")
    return content


async def _received(response: aiohttp.ClientResponse, max_bytes: int, too_large: SourceError) -> tuple[bytes, str]:
    """Return the body of an answer, as it was sent, with its digest; raise `too_large` where it has more bytes."""
    digest, parts, size = hashlib.sha256(), [], 0
    async for part in response.content.iter_chunked(CHUNK):
        size += len(part)
        if size > max_bytes:
            raise too_large
        digest.update(part)
        parts.append(part)
    return b"".join(parts), f"sha256:{digest.hexdigest()}"


def _refuse(wanted: Wanted, response: aiohttp.ClientResponse) -> None:
    """Raise the error of an answer other than 200."""
    status = response.status
    if status == 200:
        return
    host = response.url.host
    if status in {401, 403}:
        raise AccessRefused(f"{host} answers {status} for {wanted}; check the registry's credentials")
    if status == 404:
        raise LayerNotFound(f"{host} has no {wanted}, or does not show it with these credentials")
    if status == 429:
        raise RegistryBusy(f"{host} answers 429 (too many requests) for {wanted}", _retry_after(response))
    raise SourceUnreachable(f"{host} answers {status} for {wanted}")


def _retry_after(response: aiohttp.ClientResponse) -> float:
    retry_after = response.headers.get("Retry-After", "")
    return min(float(retry_after), MAX_BUSY_SECONDS) if retry_after.isdecimal() else BUSY_SECONDS
