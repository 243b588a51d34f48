"""Signing in at an identity provider whose answers are wrong: nobody gets a session by them."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
from aiohttp import web

from kyma_fleet_page.app import create_app
from kyma_fleet_page.oidc import IdentityProvider
from kyma_local.ports import free_port
from lifecycle_manager.options.endpoints import OidcSettings
from lifecycle_manager.page import PageUnusable
from tests.page_sources import MadeUp
from tests.unit.fleet_page.test_pages import ADDRESS, KnownTokens, hostile

REDIRECT = f"{ADDRESS}/sign-in/callback"
EXPIRED = "the sign-in took too long"


def id_token(**claims: Any) -> str:
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sign"


@dataclass(eq=False)
class PlayedProvider:
    """Answers as it is told; `asked` are the forms that it received."""

    issuer: str
    metadata: dict[str, Any] = field(default_factory=dict)
    tokens: Any = None
    status: int = 200
    described: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)

    async def describe(self, _: web.Request) -> web.Response:
        self.described += 1
        own = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=a",
            "token_endpoint": f"{self.issuer}/token",
        }
        return web.json_response(own | self.metadata)

    async def give(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.asked.append({**form, "auth": request.headers.get("Authorization", "")})
        return web.json_response(self.tokens, status=self.status)


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[PlayedProvider]:
    port = free_port()
    played = PlayedProvider(f"http://127.0.0.1:{port}")
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", played.describe)
    app.router.add_post("/token", played.give)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield played
    await runner.cleanup()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (file := tmp_path / "secret").write_text("s e:cret\n")
    return file


@pytest_asyncio.fixture
async def browser(provider: PlayedProvider, secret: Path) -> AsyncIterator[httpx.AsyncClient]:
    options = {"issuer": provider.issuer, "client_id": "page", "redirect_url": REDIRECT}
    client = IdentityProvider(OidcSettings(**options, client_secret_file=str(secret)))  # type: ignore[arg-type]
    app = create_app(MadeUp({"a": hostile()}), KnownTokens(), provider=client)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as browser:
        yield browser


async def sent_to(browser: httpx.AsyncClient, back: str = "/modules") -> dict[str, str]:
    """Begin a sign-in; return the query with which the browser comes to the provider."""
    answer = await browser.get("/sign-in/begin", params={"back": back})
    assert answer.status_code == 303
    return {key: value for key, (value,) in parse_qs(urlsplit(answer.headers["Location"]).query).items()}


async def test_code_becomes_the_token_of_a_session(browser: httpx.AsyncClient, provider: PlayedProvider) -> None:
    assert "/sign-in/begin?back=%2Fmodules" in (await browser.get("/modules")).text
    asked = await sent_to(browser)
    assert (asked["client_id"], asked["redirect_uri"], asked["tenant"]) == ("page", REDIRECT, "a")
    assert asked["code_challenge_method"] == "S256"
    provider.tokens = {"id_token": id_token(nonce=asked["nonce"])}
    refused = await browser.get("/sign-in/callback", params={"code": "c", "state": asked["state"]})
    assert (refused.status_code, "fleet-session" in refused.headers.get("Set-Cookie", "")) == (401, False)
    (form,) = provider.asked
    assert (form["code"], form["grant_type"]) == ("c", "authorization_code")
    assert base64.b64decode(form["auth"].removeprefix("Basic ")).decode() == "page:s%20e%3Acret"


async def test_rotated_secret_and_endpoints_are_used_at_the_next_sign_in(
    browser: httpx.AsyncClient, provider: PlayedProvider, secret: Path
) -> None:
    await sent_to(browser)
    await asyncio.to_thread(secret.write_text, "rotated")
    provider.metadata = {"authorization_endpoint": f"{provider.issuer}/moved?tenant=b"}
    asked = await sent_to(browser)
    assert asked["tenant"] == "b"
    provider.tokens = {"id_token": id_token(nonce=asked["nonce"])}
    await browser.get("/sign-in/callback", params={"code": "c", "state": asked["state"]})
    assert base64.b64decode(provider.asked[0]["auth"].removeprefix("Basic ")).decode() == "page:rotated"
    await asyncio.to_thread(secret.unlink)
    asked = await sent_to(browser)
    answer = await browser.get("/sign-in/callback", params={"code": "c", "state": asked["state"]})
    assert (answer.status_code, "--ui-oidc-client-secret-file" in answer.text) == (503, True)


async def test_any_number_of_sign_ins_at_once_read_the_metadata_once(
    browser: httpx.AsyncClient, provider: PlayedProvider
) -> None:
    await asyncio.gather(*(sent_to(browser) for _ in range(20)))
    assert provider.described == 1
    await sent_to(browser)
    assert provider.described == 2


@pytest.mark.parametrize(
    ("methods", "is_in_form"),
    [
        (["client_secret_post"], True),
        (["client_secret_post", "client_secret_basic"], False),
        (["private_key_jwt"], False),
        (None, False),
    ],
)
async def test_secret_is_sent_as_the_provider_expects_it(
    browser: httpx.AsyncClient,
    provider: PlayedProvider,
    methods: list[str] | None,
    *,
    is_in_form: bool,
) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": methods}
    asked = await sent_to(browser)
    await browser.get("/sign-in/callback", params={"code": "c", "state": asked["state"]})
    (form,) = provider.asked
    assert (form.get("client_secret"), form["auth"] == "") == ("s e:cret" if is_in_form else None, is_in_form)


async def test_callback_that_is_loaded_again_leads_to_the_page(browser: httpx.AsyncClient) -> None:
    session = {"Authorization": "Bearer known"}
    answer = await browser.get("/sign-in/callback", params={"code": "c", "state": "s"}, headers=session)
    assert (answer.status_code, 'content="0; url=/"' in answer.text) == (200, True)
    from_provider = {"Sec-Fetch-Site": "cross-site"}  # browsers keep back the cookie of the session
    answer = await browser.get("/sign-in/callback", params={"code": "c", "state": "s"}, headers=from_provider)
    assert (answer.status_code, 'content="0; url=/sign-in/callback"' in answer.text) == (200, True)
    answer = await browser.get("/sign-in/callback", headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, EXPIRED in answer.text) == (401, True)


@pytest.mark.parametrize(
    ("query", "tokens", "status", "why"),
    [
        ({"state": "another"}, {}, 401, EXPIRED),
        ({}, {}, 503, "something else than OpenID Connect demands"),
        ({}, {"id_token": "good"}, 503, "something else than an ID token"),
        ({}, {"id_token": id_token(nonce="another")}, 503, "the token of another sign-in"),
        ({}, {"id_token": id_token()}, 503, "the token of another sign-in"),
        ({}, {"id_token": "a.%%.c"}, 503, "the identity provider answers with something else"),
        ({"error": "access_denied<script>"}, {}, 401, "the identity provider refuses: access_denied&lt;script&gt;"),
        ({}, {"id_token": "x" * 300_000}, 503, "answers too much"),
    ],
)
async def test_wrong_answer_starts_no_session_and_says_why(
    browser: httpx.AsyncClient, provider: PlayedProvider, query: dict[str, str], tokens: Any, status: int, why: str
) -> None:
    asked = await sent_to(browser)
    provider.tokens = tokens
    answer = await browser.get("/sign-in/callback", params={"code": "c", "state": asked["state"], **query})
    assert answer.status_code == status
    assert why in answer.text
    assert "fleet-session" not in str(answer.headers)


async def test_callback_without_the_cookie_of_the_attempt_is_refused(
    browser: httpx.AsyncClient, provider: PlayedProvider
) -> None:
    asked = await sent_to(browser)
    browser.cookies.clear()
    for cookie in ("", "__Host-fleet-sign-in=made-up"):
        answer = await browser.get("/sign-in/callback", params={"state": asked["state"]}, headers={"Cookie": cookie})
        assert (answer.status_code, EXPIRED in answer.text) == (401, True)
    assert not provider.asked


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"issuer": "https://another.example"}, "is &#39;https://another.example&#39;, and not"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "an endpoint without TLS"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "an endpoint without TLS"),
        ({"authorization_endpoint": 7}, "something else than OpenID Connect demands"),
    ],
)
async def test_provider_that_describes_itself_wrongly_is_not_used(
    browser: httpx.AsyncClient, provider: PlayedProvider, metadata: dict[str, Any], why: str
) -> None:
    provider.metadata = metadata
    answer = await browser.get("/sign-in/begin")
    assert answer.status_code == 503
    assert why in answer.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"client_id": ""}, "--ui-oidc-client-id"),
        ({"redirect_url": "https://fleet.example/"}, "--ui-oidc-redirect-url"),
        ({"redirect_url": "http://fleet.example/sign-in/callback"}, "--ui-oidc-redirect-url"),
        ({"redirect_url": "http://[::1/sign-in/callback"}, "--ui-oidc-redirect-url"),
        ({"issuer": "http://idp.example"}, "is not an https URL"),
        ({"client_secret_file": "/nowhere/secret"}, "/nowhere/secret"),
        ({"ca_file": "/nowhere/ca"}, "No such file"),
    ],
)
def test_options_that_do_not_fit_end_the_start_with_their_names(options: dict[str, str], why: str) -> None:
    known = {"issuer": "https://idp.example", "client_id": "page", "redirect_url": REDIRECT}
    with pytest.raises(PageUnusable, match=why):
        IdentityProvider.configured(OidcSettings(**{**known, **options}))  # type: ignore[arg-type]
    assert IdentityProvider.configured(OidcSettings()) is None
