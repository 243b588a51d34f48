"""The pages as a client without a browser sees them: who sees them, and that hostile text stays text."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from kube_runtime import KubeError
from kyma_fleet_page import create_app
from kyma_fleet_page.access import AccessDecision
from lifecycle_manager_api import Kyma
from tests import builders
from tests.page_sources import AnyRight, MadeUp

ADDRESS = "https://localhost"
SCRIPT = "<script>alert(1)</script>"
VERDICTS = {"good": AccessDecision.ALLOWED, "stranger": AccessDecision.FORBIDDEN}
PAGES = ("/", "/squares", "/live", "/modules", "/modules/api", "/kymas/a", "/kymas/a/tree", "/kymas/a/change")


class KnownTokens(AnyRight):
    """Knows two tokens; the API server does not answer about a third."""

    async def of(self, token: str) -> AccessDecision:
        if token == "outage":
            raise KubeError("no answer")
        return VERDICTS.get(token, AccessDecision.UNKNOWN)


class DemotedToken(KnownTokens):
    """A token that allows so many times to see the page, and is another one then."""

    def __init__(self, allowed: int, then: str) -> None:
        self.allowed, self.then = allowed, then

    async def of(self, token: str) -> AccessDecision:
        if not self.allowed:
            return await super().of(self.then)
        self.allowed -= 1
        return AccessDecision.ALLOWED


def hostile() -> Kyma:
    module = builders.module_status("api", SCRIPT, "Error", message=SCRIPT)
    ready = builders.condition("Ready", "ModuleError", SCRIPT)
    return builders.kyma("a", status={"state": "Error", "modules": [module], "conditions": [ready]})


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    kymas = {"a": hostile()}
    app = create_app(MadeUp(kymas, note=SCRIPT).sources(), KnownTokens())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("stranger", 403), ("outage", 503)])
async def test_nothing_is_shown_without_a_token_that_allows_it(
    browser: httpx.AsyncClient, path: str, token: str, status: int
) -> None:
    answer = await browser.get(path, headers={"Authorization": f"Bearer {token}"} if token else {})
    assert answer.status_code == status
    assert "/kymas/" not in answer.text
    assert "Sign in" in answer.text


async def test_texts_of_clusters_stay_texts_and_no_inline_script_is_allowed(browser: httpx.AsyncClient) -> None:
    for path in set(PAGES) - {"/live"}:
        answer = await browser.get(path, headers={"Authorization": "Bearer good"})
        assert answer.status_code == 200
        assert SCRIPT not in answer.text
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
    assert "&lt;script&gt;" in (await browser.get("/kymas/a", headers={"Authorization": "Bearer good"})).text


async def test_token_of_the_form_is_a_cookie_for_this_site_alone(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/sign-in", data={"token": "good"})
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await browser.get("/")).status_code == 200
    await browser.post("/sign-out")
    assert (await browser.get("/")).status_code == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [("token=" + "x" * 40_000, {}, 413), ("token=good", {"Sec-Fetch-Site": "cross-site"}, 403), ("\xff=%", {}, 303)],
)
async def test_form_of_somebody_else_or_too_large_is_refused(
    browser: httpx.AsyncClient, body: str, headers: dict[str, str], status: int
) -> None:
    answer = await browser.post("/sign-in", content=body.encode("latin-1"), headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/live", "/live?shown=0&state=Error", "/live?kyma=a"])
@pytest.mark.parametrize(("verdict", "last"), [("stranger", "signed-out"), ("wrong", "signed-out"), ("outage", "")])
async def test_open_stream_ends_for_a_user_who_may_no_longer_see_the_page(path: str, verdict: str, last: str) -> None:
    known = DemotedToken(allowed=3, then=verdict)
    app = create_app(MadeUp({"a": hostile()}).sources(), known, heartbeat_seconds=0.01)
    async with asyncio.timeout(10), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        answer = await client.get(path, headers={"Authorization": "Bearer good"})
    assert answer.status_code == 200
    assert ("event: signed-out" in answer.text) is bool(last)
    assert known.allowed == 0


async def test_unknown_names_are_not_found(browser: httpx.AsyncClient) -> None:
    for path in ("/kymas/b", "/modules/b", "/static/secrets", "/kymas/..%2f"):
        assert (await browser.get(path, headers={"Authorization": "Bearer good"})).status_code == 404
