"""Pulls and pushes layers and manifests: content is hashed while it arrives, and bounded in size and time.

Existing packages block threads or need a container engine. Of the distribution protocol only the reading of a blob or a
manifest is needed, and the upload of both in one piece.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit
from weakref import WeakValueDictionary

import aiohttp

from kyma_oci.credentials import Login
from kyma_oci.hosts import ANY_HOST, AllowedHosts
from kyma_oci.limits import CONNECT_SECONDS, MAX_BYTES, MAX_DETAIL_BYTES, MAX_PAGES, READ_SECONDS, TIMEOUT_SECONDS
from kyma_oci.packing import INDEX, MANIFEST, Blob, manifest_of
from kyma_oci.problems import DigestMismatch, LayerTooLarge, LayerTruncated, PushRefused, SourceUnreachable
from kyma_oci.references import Artifact, Layer, Wanted, origin_of
from kyma_oci.requests import PULL, PUSH, ProxyOf, Requests, check_answer, received

_ANY_CONTENT = "application/octet-stream"
_WITHOUT_DETAIL = frozenset({401, 403, 429})


def machine_trust() -> ssl.SSLContext:
    """Return a context that trusts the CAs of the machine, also those that are too old-fashioned for Python 3.13."""
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@dataclass(eq=False)
class Registries:
    """Pulls from and pushes to `allowed` hosts, at most `concurrency` contents at once. Close it.

    One host has at most half of the places: a registry that hangs leaves the others to the rest. `trust` is the
    machine's own unless given; without `proxy_of` each host is reached directly.
    """

    trust: ssl.SSLContext | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    concurrency: int = 8
    allowed: AllowedHosts = ANY_HOST
    proxy_of: ProxyOf = lambda _: None
    _session: aiohttp.ClientSession | None = field(default=None, init=False)
    _places: asyncio.Semaphore = field(init=False)
    _of_hosts: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary, init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.concurrency)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def pull(self, wanted: Wanted, login: Login | None = None) -> bytes:
        """Return the bytes of a layer or manifest, which match its digest where it has one. Raises SourceError."""
        return (await self._page(wanted, wanted.url, login))[0]

    async def pages(self, wanted: Artifact, login: Login | None = None) -> AsyncIterator[bytes]:
        """Yield the pages of a list that a registry may send in parts. Raises SourceError."""
        url = wanted.url
        for _ in range(MAX_PAGES):
            page, url = await self._page(wanted, url, login)
            yield page
            if not url:
                return
        raise LayerTooLarge(f"{wanted} has more than {MAX_PAGES} pages")

    async def _page(self, wanted: Wanted, url: str, login: Login | None) -> tuple[bytes, str]:
        """Return the content at a URL, and the URL of its next page, "" for none."""
        media_type = f"{MANIFEST}, {INDEX}" if isinstance(wanted, Artifact) else ""
        async with (
            self._bounded(wanted, "send"),
            self._requests(login, PULL).send(wanted, url, media_type=media_type) as response,
        ):
            following = response.links.get("next")
            return await _content(wanted, response), "" if following is None else str(following["url"])

    async def push(self, artifact: Artifact, config: Blob, layers: Iterable[Blob], login: Login | None = None) -> str:
        """Push an artifact: its blobs, then the manifest that refers to them, whose digest is returned.

        Raises SourceError.
        """
        layers, requests = tuple(layers), self._requests(login, PUSH)
        manifest = manifest_of(config, layers)
        for blob in dict.fromkeys((config, *layers)):
            layer = artifact.layer(blob.digest)
            _check_size(layer, blob)
            async with self._bounded(layer, "accept"):
                await _upload(requests, layer, blob)
        _check_size(artifact, manifest)
        async with (
            self._bounded(artifact, "accept"),
            requests.send(
                artifact, artifact.url, method="PUT", body=manifest.content, media_type=manifest.media_type
            ) as response,
        ):
            await _check_accepted(artifact, response, 201)
        return manifest.digest

    @asynccontextmanager
    async def _bounded(self, wanted: Wanted, verb: str) -> AsyncIterator[None]:
        """Bound the time and number of exchanges. What fails below HTTP is raised as SourceError."""
        of_host = self._of_hosts.setdefault(wanted.host.lower(), asyncio.Semaphore(max(1, self.concurrency // 2)))
        async with of_host, self._places:
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    yield
            except aiohttp.ClientPayloadError as error:
                raise LayerTruncated(f"{wanted} was truncated: {error}") from None
            except TimeoutError:
                raise SourceUnreachable(
                    f"{wanted.host} did not {verb} {wanted} within {self.timeout_seconds:g} s"
                ) from None
            except aiohttp.ClientHttpProxyError as error:  # its text has the address of the proxy, with a password
                refused = f"its proxy answered {error.status} {error.message}"
                raise SourceUnreachable(f"{wanted.host} can't be reached: {refused}") from None
            except aiohttp.InvalidURL:  # its text is the whole URL
                raise SourceUnreachable(f"{wanted.host} leads to an invalid URL for {wanted}") from None
            except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
                raise SourceUnreachable(
                    f"{wanted.host} can't be reached: {str(error) or type(error).__name__}"
                ) from None

    def _requests(self, login: Login | None, actions: str) -> Requests:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self.concurrency * 2, ssl=self.trust or machine_trust())
            timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),  # a cookie could give one login's access to another
            )
        return Requests(self._session, self.allowed, self.proxy_of, login, actions)


async def _content(wanted: Wanted, response: aiohttp.ClientResponse) -> bytes:
    check_answer(wanted, response)
    too_large = LayerTooLarge(f"{wanted} has more than {MAX_BYTES} bytes")
    if (response.content_length or 0) > MAX_BYTES:
        raise too_large
    content, digest = await received(response, MAX_BYTES, too_large)
    if wanted.digest and digest != wanted.digest:
        raise DigestMismatch(f"{wanted}: the content has the digest {digest}")
    return content


async def _upload(requests: Requests, layer: Layer, blob: Blob) -> None:
    """Upload a blob in one piece unless the repository has it."""
    async with requests.send(layer, layer.url, method="HEAD") as response:
        if response.status == 200:
            return
        await _check_accepted(layer, response, 404)
    async with requests.send(layer, layer.uploads_url, method="POST") as response:
        await _check_accepted(layer, response, 202)
        url = upload_url(layer, response.headers.get("Location"))
    async with requests.send(layer, url, method="PUT", body=blob.content, media_type=_ANY_CONTENT) as response:
        await _check_accepted(layer, response, 201)


def upload_url(layer: Layer, location: str | None) -> str:
    """Return where a blob is uploaded to, which is at the registry itself: credentials are sent there.

    Raises PushRefused.
    """
    if not location:
        raise PushRefused(f"{layer.host} does not say where the upload of {layer} is sent")
    try:
        url = urljoin(layer.uploads_url, location)
        is_there = origin_of(url) == origin_of(layer.url)
    except ValueError:
        raise PushRefused(f"{layer.host} names an invalid URL for the upload of {layer}: {location[:200]!r}") from None
    if not is_there:
        there = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        raise PushRefused(f"{layer.host} redirects the upload of {layer} to {there[:200]!r}: expected its own address")
    return f"{url}{'&' if urlsplit(url).query else '?'}digest={layer.digest}"


async def _check_accepted(wanted: Wanted, response: aiohttp.ClientResponse, expected: int) -> None:
    """Raise the error of an answer with another status than expected, with the registry's reason."""
    if response.status == expected:
        return
    if response.status in _WITHOUT_DETAIL:
        check_answer(wanted, response)
    detail = _printable(await response.content.read(MAX_DETAIL_BYTES))
    raise PushRefused(f"{response.url.host} answers {response.status} to {response.method} for {wanted}: {detail}")


def _printable(text: bytes) -> str:
    return "".join(each if each.isprintable() else " " for each in text.decode(errors="replace"))


def _check_size(wanted: Wanted, blob: Blob) -> None:
    if len(blob.content) > MAX_BYTES:
        raise LayerTooLarge(f"{wanted} has more than {MAX_BYTES} bytes, so nobody could pull it")
