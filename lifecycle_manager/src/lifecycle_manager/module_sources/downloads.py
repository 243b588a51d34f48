"""Downloads of files that a ModuleTemplate links to: over HTTPS only, bounded in size, time and redirects.

They are sent uncompressed, as an encoding that is decoded expands before its size is known.
"""

import asyncio
import ssl
from urllib.parse import urlsplit

import httpx

from kube_runtime.client.proxies import proxy_of_environment
from kyma_oci import ANY_HOST, AllowedHosts, machine_trust, netloc_of

MAX_BYTES = 10 * 1024 * 1024
TIMEOUT_SECONDS = 60.0
MAX_REDIRECTS = 3


class DownloadFailed(Exception):
    """A file could not be downloaded; the message has the link and the reason."""


class Downloads:
    """Downloads files from `allowed` hosts, each within `timeout_seconds`. `trust` is by default the machine's own."""

    def __init__(
        self,
        trust: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        *,
        allowed: AllowedHosts = ANY_HOST,
    ) -> None:
        self._allowed = allowed
        self._trust = trust
        self._timeout_seconds = timeout_seconds

    async def text(self, link: str) -> str:
        """Return the text behind a link. Raises DownloadFailed."""
        try:
            async with asyncio.timeout(self._timeout_seconds):  # of the whole download; httpx applies its to each read
                return (await self._bytes(link)).decode()
        except TimeoutError:
            raise DownloadFailed(f"download of {link} timed out after {self._timeout_seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise DownloadFailed(f"{link} can't be read: {str(error) or type(error).__name__}") from error

    async def _bytes(self, link: str) -> bytes:
        address, trust = link, self._trust or machine_trust()
        for _ in range(MAX_REDIRECTS + 1):
            host = netloc_of(address)
            if (scheme := urlsplit(address).scheme) != "https":
                what = "it" if address == link else f"{scheme}://{host}"
                raise DownloadFailed(f"{link} can't be read: {what} is not an https address")
            if not self._allowed.allow(address):
                raise DownloadFailed(f"{link} can't be read: {host} is not among the allowed-source-hosts")
            proxy = proxy_of_environment(address)  # httpx does not understand all that NO_PROXY may have
            async with (
                httpx.AsyncClient(verify=trust, timeout=self._timeout_seconds, trust_env=False, proxy=proxy) as client,
                client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as response,
            ):
                if response.next_request is not None:
                    address = str(response.next_request.url)
                    continue
                if response.status_code != 200:
                    raise DownloadFailed(f"{link} returned status {response.status_code}")
                return await bounded_body(response, link)
        raise DownloadFailed(f"{link} redirects more than {MAX_REDIRECTS} times")


async def bounded_body(response: httpx.Response, link: str) -> bytes:
    """Return the body of an answer as it was sent. Raises DownloadFailed where it is encoded or too large."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise DownloadFailed(f"{link} has the encoding {encoding[:40]!r}; serve it without one")
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MAX_BYTES:
            raise DownloadFailed(f"{link} is larger than {MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
