"""The identity provider of the control plane's API server: a browser is sent there, and comes back with a code.

OpenID Connect Core 1.0, authorization code flow, with PKCE (RFC 7636). The ID token comes from the provider's token
endpoint over TLS, and serves as the token of the session. It is the API server that verifies it (TokenReview), as it
does with any token; nothing here trusts what it says.
"""

import asyncio
import base64
import hashlib
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec

from kube_runtime import UNDECODABLE
from kube_runtime.client.proxies import proxy_of_environment
from lifecycle_manager.options.endpoints import OidcSettings
from lifecycle_manager.page import PageUnusable

CALLBACK = "/sign-in/callback"
TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024
MAX_CODE = 4096


T = TypeVar("T")


class ProviderFailed(Exception):
    """The identity provider did not answer as OpenID Connect demands; the text is for the user of the page."""


class _Metadata(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: Sequence[str] | None = None

    @property
    def takes_secret_in_form(self) -> bool:
        """Whether the secret of a client is expected in the form, and not in a header."""
        known = self.token_endpoint_auth_methods_supported or ()
        return "client_secret_post" in known and "client_secret_basic" not in known


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class _Claims(msgspec.Struct, frozen=True):
    nonce: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class SignInAttempt:
    """One way of a browser to the provider and back. `state` and `nonce` tie the answers to it, `verifier` the code."""

    state: str
    nonce: str
    verifier: str
    back: str

    @classmethod
    def towards(cls, back: str) -> "SignInAttempt":
        """Return a new one that ends at a page."""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), back)


@dataclass(eq=False)
class IdentityProvider:
    """Asks one provider, as one of its clients. Files and metadata are read at each sign-in: they may be rotated."""

    settings: OidcSettings
    _known: _Metadata | None = None
    _reading: asyncio.Task[_Metadata] | None = None

    @classmethod
    def configured(cls, settings: OidcSettings) -> "IdentityProvider | None":
        """Return the provider that the options name, if any. Raises PageUnusable."""
        if not settings.issuer:
            return None
        if not settings.client_id:
            raise PageUnusable("--ui-oidc-issuer-url: give --ui-oidc-client-id, too")
        back = settings.redirect_url
        if not _is_private(back) or urlsplit(back).path != CALLBACK:  # elsewhere browsers keep no cookie of ours
            raise PageUnusable(f"--ui-oidc-redirect-url: {back!r} is not an https URL with the path {CALLBACK}")
        if not _is_private(settings.issuer):
            raise PageUnusable(f"--ui-oidc-issuer-url: {settings.issuer!r} is not an https URL")
        provider = cls(settings)
        try:
            provider._secret(), provider._trust()
        except ProviderFailed as error:
            raise PageUnusable(str(error)) from None
        return provider

    async def address_for(self, attempt: SignInAttempt) -> str:
        """Return where the browser goes. Raises ProviderFailed."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_url,
            "scope": " ".join(("openid", *self.settings.scopes)),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        if self._reading is None or self._reading.done():  # sign-ins share a read: anybody can begin any number
            self._reading = asyncio.create_task(self._metadata())
        self._known = await asyncio.shield(self._reading)
        endpoint = self._known.authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def token_for(self, code: str, attempt: SignInAttempt) -> str:
        """Return the ID token for the code with which the browser came back. Raises ProviderFailed."""
        form = {
            "grant_type": "authorization_code",
            "code": code[:MAX_CODE],
            "redirect_uri": self.settings.redirect_url,
            "client_id": self.settings.client_id,
            "code_verifier": attempt.verifier,
        }
        known, secret, headers = self._known or await self._metadata(), self._secret(), {}
        if secret and known.takes_secret_in_form:
            form["client_secret"] = secret
        elif secret:  # RFC 6749, 2.3.1
            headers["Authorization"] = aiohttp.encode_basic_auth(quote(self.settings.client_id), quote(secret))
        token = _decoded(await self._ask("POST", known.token_endpoint, form, headers), _Tokens).id_token
        if not secrets.compare_digest(_claims_of(token).nonce.encode(), attempt.nonce.encode()):
            raise ProviderFailed("the identity provider answered with the token of another sign-in")
        return token

    async def _metadata(self) -> _Metadata:
        """Return what the provider says of itself."""
        issuer = self.settings.issuer
        found = _decoded(await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration"), _Metadata)
        if found.issuer != issuer:
            raise ProviderFailed(f"the identity provider is {found.issuer[:200]!r}, and not {issuer!r}")
        if not all(map(_is_private, (found.authorization_endpoint, found.token_endpoint))):
            raise ProviderFailed("the identity provider names an endpoint without TLS")
        return found

    def _secret(self) -> str:
        file = self.settings.client_secret_file
        try:
            return Path(file).read_text().strip() if file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderFailed(f"--ui-oidc-client-secret-file: {error}") from None

    def _trust(self) -> ssl.SSLContext:
        file = self.settings.ca_file
        try:
            context = ssl.create_default_context(cafile=file or None)
        except OSError as error:  # a certificate that can't be read is one, too
            raise ProviderFailed(f"--ui-oidc-ca-file: {error}") from None
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # CAs of companies are old-fashioned
        return context

    async def _ask(
        self, method: str, address: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        request: dict[str, Any] = {"data": form, "headers": headers or {}, "ssl": self._trust()}
        body = b""
        try:
            request["proxy"] = proxy_of_environment(address)
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                aiohttp.ClientSession() as session,
                session.request(method, address, allow_redirects=False, **request) as answer,
            ):
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ProviderFailed("the identity provider answers too much")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ProviderFailed(f"the identity provider does not answer: {type(error).__name__}") from error
        if answer.status != 200:
            raise ProviderFailed(f"the identity provider answers {answer.status}; try again")
        return body


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except UNDECODABLE:
        raise ProviderFailed("the identity provider answers with something else than OpenID Connect demands") from None


def _claims_of(token: str) -> _Claims:
    """Return what an ID token says, unverified: it only tells whether it is the one that was asked for."""
    try:
        _, claims, _ = token.split(".")
        return _decoded(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), _Claims)
    except ValueError:
        raise ProviderFailed("the identity provider answers with something else than an ID token") from None


def _is_private(address: str) -> bool:
    """Tell whether nobody reads along: TLS, or a loopback address."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        return parts.scheme == "https" or (
            parts.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
        )
    except ValueError:
        return False
