"""Files that a template links to: fetched over HTTPS, within bounds, and not from wherever they redirect to."""

import asyncio
import ssl
from urllib.parse import urlsplit

import httpx

MOST_BYTES = 10 * 1024 * 1024
TIMEOUT_SECONDS = 60.0
MOST_REDIRECTS = 3


class DownloadFailed(Exception):
    """A file could not be fetched; the message names it and says why."""


class Downloads:
    """Fetches files, each within `timeout_seconds`. `trust` is the machine's own unless given."""

    def __init__(self, trust: ssl.SSLContext | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._trust = trust
        self._timeout_seconds = timeout_seconds

    async def text(self, link: str) -> str:
        """Return the text behind a link. Raises DownloadFailed."""
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),  # of all of it; httpx counts each part of an answer anew
                httpx.AsyncClient(verify=self._trust or True, timeout=self._timeout_seconds) as client,
            ):
                return (await self._bytes(client, link)).decode()
        except TimeoutError:
            raise DownloadFailed(f"{link} did not come within {self._timeout_seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeDecodeError) as error:
            raise DownloadFailed(f"{link} can't be read: {str(error) or type(error).__name__}") from error

    async def _bytes(self, client: httpx.AsyncClient, link: str) -> bytes:
        address = link
        for _ in range(MOST_REDIRECTS + 1):
            if urlsplit(address).scheme != "https":
                raise DownloadFailed(f"{link} leads to {address}, which is not https")
            async with client.stream("GET", address) as response:
                if response.next_request is not None:
                    address = str(response.next_request.url)
                    continue
                if response.status_code != 200:
                    raise DownloadFailed(f"{link} answers {response.status_code}")
                return await _bounded(response, link)
        raise DownloadFailed(f"{link} redirects more than {MOST_REDIRECTS} times")


async def _bounded(response: httpx.Response, link: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MOST_BYTES:
            raise DownloadFailed(f"{link} is larger than {MOST_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
