"""Pushes a component version to an OCI registry: its blobs, then the manifest that refers to them.

A small client of its own over the HTTP client that the runtime needs anyway: pushing takes four requests of the
distribution API, and its two authentication schemes.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from yarl import URL

from kyma_module_manager.exceptions import ModuleManagerError

__all__ = ["Blob", "Registry", "RegistryCredentials", "RegistryError"]

TIMEOUT = aiohttp.ClientTimeout(total=60, connect=10)
MAX_RESPONSE_BYTES = 64 * 1024
MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
CHALLENGE_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(ModuleManagerError):
    """The registry could not be reached, or rejected a request."""


@dataclass(frozen=True)
class RegistryCredentials:
    """User name and password for a registry; the password is not part of the representation."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, …)"

    def header(self) -> str:
        """Return the Authorization header of HTTP Basic."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Blob:
    """Content with its media type, addressed by its digest."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in the notation of registries."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self) -> dict[str, Any]:
        """Return the reference to this blob for a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}


class Registry:
    """One repository's registry, as `https://host[:port]`; an asynchronous context manager. Raises RegistryError."""

    def __init__(self, url: str, credentials: RegistryCredentials | None = None) -> None:
        self._url = url.rstrip("/")
        self._credentials = credentials
        self._authorization = credentials.header() if credentials else None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def push(self, repository: str, tag: str, config: Blob, layers: tuple[Blob, ...]) -> str:
        """Push an artifact and return the digest of its manifest."""
        for blob in dict.fromkeys((config, *layers)):
            await self._push_blob(repository, blob)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "config": config.descriptor(),
            "layers": [layer.descriptor() for layer in layers],
        }
        content = json.dumps(manifest, separators=(",", ":")).encode()
        await self._request(
            "PUT",
            f"{self._url}/v2/{repository}/manifests/{tag}",
            expected=(201,),
            body=content,
            headers={"Content-Type": MANIFEST_MEDIA_TYPE},
        )
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    async def _push_blob(self, repository: str, blob: Blob) -> None:
        blobs = f"{self._url}/v2/{repository}/blobs"
        status, _ = await self._request("HEAD", f"{blobs}/{blob.digest}", expected=(200, 404))
        if status == 200:
            return
        _, headers = await self._request("POST", f"{blobs}/uploads/", expected=(202,))
        location = URL(self._url).join(URL(headers["Location"], encoded=True))
        if location.host != URL(self._url).host:
            raise RegistryError(f"{self._url} redirects the upload to another host, {location.host}")
        await self._request(
            "PUT",
            str(location.update_query(digest=blob.digest)),
            expected=(201,),
            body=blob.content,
            headers={"Content-Type": "application/octet-stream"},
        )

    async def _request(
        self,
        method: str,
        url: str,
        *,
        expected: tuple[int, ...],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str]]:
        status, response_headers, text = await self._send(method, url, body, headers)
        if status == 401 and "WWW-Authenticate" in response_headers:
            await self._authenticate(response_headers["WWW-Authenticate"])
            status, response_headers, text = await self._send(method, url, body, headers)
        if status not in expected:
            raise RegistryError(f"{method} {url} returned {status}: {text}")
        return status, response_headers

    async def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, str], str]:
        if self._session is None:
            raise RegistryError("Registry must be used as an asynchronous context manager")
        sent = dict(headers or {})
        if self._authorization is not None:
            sent["Authorization"] = self._authorization
        try:
            async with self._session.request(
                method, URL(url, encoded=True), data=body, headers=sent, allow_redirects=False
            ) as response:
                text = (await response.content.read(MAX_RESPONSE_BYTES)).decode(errors="replace")
                return response.status, response.headers, text
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RegistryError(f"{self._url}: {type(error).__name__}: {error}") from error

    async def _authenticate(self, challenge: str) -> None:
        """Get a token from the service that the registry names, as `Bearer realm="…",service="…",scope="…"`."""
        kind, _, rest = challenge.partition(" ")
        parameters = dict(CHALLENGE_PARAMETER.findall(rest))
        realm = parameters.pop("realm", "")
        if kind.lower() != "bearer" or not realm:
            raise RegistryError(
                f"{self._url} {'rejects the credentials' if self._credentials else 'requires credentials'}"
            )
        if urlsplit(realm).scheme != "https" and urlsplit(self._url).scheme == "https":
            raise RegistryError(f"{self._url} requests credentials for {urlsplit(realm).netloc} without TLS")
        self._authorization = self._credentials.header() if self._credentials else None
        status, _, text = await self._send("GET", f"{realm}?{urlencode(parameters)}", None, None)
        if status != 200:
            raise RegistryError(f"the token service {urlsplit(realm).netloc} returned {status}")
        token = json.loads(text)
        self._authorization = f"Bearer {token.get('token') or token.get('access_token')}"
