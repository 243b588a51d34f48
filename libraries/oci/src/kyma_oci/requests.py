"""Requests for one repository: with a token where the registry requires one, within the hosts that are allowed.

Credentials are sent to the registry and to the token service that it names, and never along with a redirect to another
host. One that asks for credentials there is refused.
"""

import hashlib
import io
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from kyma_oci.credentials import Login
from kyma_oci.hosts import AllowedHosts
from kyma_oci.limits import (
    BUSY_SECONDS,
    CHUNK,
    MAX_BUSY_SECONDS,
    MAX_REDIRECTS,
    MAX_TOKEN_BYTES,
    MIN_BUSY_SECONDS,
)
from kyma_oci.problems import (
    UNREADABLE,
    AccessRefused,
    LayerNotFound,
    RegistryBusy,
    SourceError,
    SourceNotAllowed,
    SourceUnreachable,
)
from kyma_oci.references import Wanted, is_this_machine, netloc_of, origin_of

ProxyOf = Callable[[str], str | None]
"""Returns the proxy for a URL, None where it is reached directly. Raises ValueError."""
PULL, PUSH = "pull", "pull,push"
_WORD = re.compile(r'([A-Za-z][\w-]*)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+)))?')
"""A scheme or, with a value, a parameter of the scheme before it: one header may have several challenges."""
_TOKEN = re.compile(r"[!-~]+")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOLLOWED = frozenset({"GET", "HEAD"})
"""Nothing that is pushed is sent where a redirect leads to."""


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


@dataclass(eq=False)
class Requests:
    """Requests that read or write (`actions`) one repository. What the registry grants is kept for the next request."""

    session: aiohttp.ClientSession
    allowed: AllowedHosts
    proxy_of: ProxyOf
    login: Login | None
    actions: str = PULL
    _authorization: str | None = field(default=None, init=False)

    @asynccontextmanager
    async def send(
        self, wanted: Wanted, url: str, *, method: str = "GET", body: bytes | None = None, media_type: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and once more with credentials where the registry asks for them. Raises SourceError."""
        headers = _headers(body, media_type)
        async with self._followed(wanted, url, method, headers, body) as response:
            if response.status != 401:
                yield response
                return
            challenges = response.headers.getall("WWW-Authenticate", [])
        self._authorization = await self._granted(wanted, challenges)
        async with self._followed(wanted, url, method, headers, body) as response:
            yield response

    @asynccontextmanager
    async def _followed(
        self, wanted: Wanted, url: str, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and follow redirects. Credentials are sent to the registry itself only."""
        registry = origin_of(wanted.url)
        for _ in range(MAX_REDIRECTS + 1):
            self._check(wanted, url)
            sent, elsewhere = dict(headers), origin_of(url) != registry
            if self._authorization is not None and not elsewhere:
                sent["Authorization"] = self._authorization
            data = None if body is None else io.BytesIO(body)  # as bytes, a large body would block the loop
            address = URL(url, encoded=True)  # storages sign each character of a URL
            proxy = self.proxy_of(url)
            async with self.session.request(
                method, address, data=data, headers=sent, allow_redirects=False, proxy=proxy
            ) as response:
                if response.status == 401 and elsewhere:
                    raise AccessRefused(
                        f"{wanted.host} redirects {wanted} to {netloc_of(url)}, which asks for credentials"
                    )
                redirected = response.status in _REDIRECTS and "Location" in response.headers
                if not redirected or method not in _FOLLOWED:
                    yield response
                    return
                url = urljoin(url, response.headers["Location"])
        raise SourceUnreachable(f"{wanted.host} redirects more than {MAX_REDIRECTS} times")

    async def _granted(self, wanted: Wanted, challenges: list[str]) -> str:
        schemes = _schemes(challenges)
        if "bearer" in schemes:
            return f"Bearer {await self._token(wanted, schemes['bearer'])}"
        if "basic" in schemes and self.login is not None:
            return self.login.basic
        needs = "needs credentials" if self.login is None else "asks for credentials of a kind that is not known"
        raise AccessRefused(f"{wanted.host} {needs} for {wanted.path}")

    async def _token(self, wanted: Wanted, asked: dict[str, str]) -> str:
        realm = asked.get("realm", "")
        scope = asked.get("scope") or f"repository:{wanted.path}:{self.actions}"
        query = {"scope": scope} | ({"service": asked["service"]} if "service" in asked else {})
        self._check(wanted, realm)
        headers = {"Authorization": self.login.basic} if self.login is not None else {}
        async with self.session.get(
            realm, params=query, headers=headers, allow_redirects=False, proxy=self.proxy_of(realm)
        ) as response:
            check_answer(wanted, response)
            too_large = f"{response.url.host} sends a token for {wanted} of more than {MAX_TOKEN_BYTES} bytes"
            body, _ = await received(response, MAX_TOKEN_BYTES, SourceUnreachable(too_large))
        try:
            given = msgspec.json.decode(body, type=_Token)
        except UNREADABLE:
            given = _Token()
        token = given.token or given.access_token
        if not _TOKEN.fullmatch(token):
            raise SourceUnreachable(f"{netloc_of(realm)} sends no readable token")
        return token

    def _check(self, wanted: Wanted, url: str) -> None:
        """Refuse a URL that a registry leads to: only one without TLS itself may lead to another on its own machine."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (wanted.scheme == parts.scheme == "http" and _is_near(wanted, parts.netloc)):
            raise SourceUnreachable(f"{wanted.host} leads to {parts.scheme}://{netloc_of(url)}, which is not https")
        if not self.allowed.allow(url):
            raise SourceNotAllowed(f"{wanted} needs {netloc_of(url)}, which is not among the allowed-source-hosts")


async def received(response: aiohttp.ClientResponse, max_bytes: int, too_large: SourceError) -> tuple[bytes, str]:
    """Return the body of an answer, as it was sent, with its digest; raise `too_large` where it has more bytes."""
    digest, parts, size = hashlib.sha256(), [], 0
    async for part in response.content.iter_chunked(CHUNK):
        size += len(part)
        if size > max_bytes:
            raise too_large
        digest.update(part)
        parts.append(part)
    return b"".join(parts), f"sha256:{digest.hexdigest()}"


def check_answer(wanted: Wanted, response: aiohttp.ClientResponse) -> None:
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


def _schemes(challenges: list[str]) -> dict[str, dict[str, str]]:
    """Return the parameters of each scheme that a registry accepts."""
    found: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for word in _WORD.finditer(", ".join(challenges)):
        name, quoted, plain = word.groups()
        if quoted is None and plain is None:
            parameters = found.setdefault(name.lower(), {})
        else:
            parameters.setdefault(name.lower(), plain or quoted)
    return found


def _headers(body: bytes | None, media_type: str) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if media_type:
        headers["Accept" if body is None else "Content-Type"] = media_type
    return headers


def _is_near(wanted: Wanted, netloc: str) -> bool:
    return is_this_machine(netloc) or urlsplit(f"//{netloc}").hostname == urlsplit(f"//{wanted.host}").hostname


def _retry_after(response: aiohttp.ClientResponse) -> float:
    retry_after = response.headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isdecimal() else BUSY_SECONDS
    return min(max(seconds, MIN_BUSY_SECONDS), MAX_BUSY_SECONDS)
