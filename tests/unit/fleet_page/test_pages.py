"""The pages as a client without a browser sees them: who sees them, and that hostile text stays text."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from http_guard import Bounds, server_for
from kube_runtime import KubeError
from kyma_fleet_page.access import AccessDecision
from kyma_fleet_page.app import MAX_OF_ONE_USER as OPEN_OF_ONE_USER
from kyma_fleet_page.app import MAX_PAGES, create_app
from kyma_fleet_page.own_page import OneTimeLink, OwnAccess
from kyma_fleet_page.sessions import MAX_OF_ONE_USER, MAX_SESSIONS, SECONDS, OperatorSessions
from lifecycle_manager_api import Kyma, ModuleRollout
from tests import builders
from tests.clocks import ManualClock
from tests.page_sources import AnyRight, MadeUp
from tests.unit.fleet_page.rollouts import rollout
from tests.waiting import eventually

ADDRESS = "https://localhost"
OWN = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
SCRIPT = "<script>alert(1)</script>"
VERDICTS = {"good": AccessDecision.ALLOWED, "stranger": AccessDecision.FORBIDDEN}
OF_A_CLUSTER = ("/kymas/a", "/kymas/a/tree", "/kymas/a/change", "/kymas/a/objects", "/kymas/a/modules/api/difference")
ROLLOUT = "/rollouts/api-regular-2"
PAGES = ("/", "/squares", "/live", "/modules", "/modules/api", ROLLOUT, *OF_A_CLUSTER)


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


def hostile_rollout() -> ModuleRollout:
    return rollout("api", failed={"a": SCRIPT}, message=SCRIPT, spec={"approvals": [{"wave": "europe", "by": SCRIPT}]})


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    kymas = {"a": hostile()}
    app = create_app(
        MadeUp(kymas, note=SCRIPT, rollouts=lambda: [hostile_rollout()]),
        KnownTokens(),
        control_plane="kcp.example:6443",
        hosts=["Fleet.example"],
    )
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
    assert "/kymas/" not in answer.text.replace(f'value="{path}"', "")
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


async def test_header_names_the_user_and_the_control_plane(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/modules", headers={"Authorization": "Bearer good"})
    assert "<b>good</b> at kcp.example:6443" in answer.text
    assert "kcp.example" not in (await browser.get("/modules")).text


@pytest.mark.parametrize("path", ["/nothing", "/kymas/a/nothing", "/modules/", f"/{SCRIPT}"])
async def test_unknown_path_is_answered_by_a_page(browser: httpx.AsyncClient, path: str) -> None:
    assert (await browser.get(path)).status_code == 401
    answer = await browser.get(path, headers={"Authorization": "Bearer good"})
    assert answer.status_code == 404
    assert "There is no page /" in answer.text
    assert SCRIPT not in answer.text


async def test_token_stays_in_the_process_and_the_cookie_names_a_session(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/sign-in", data={"token": "good"}, headers=OWN)
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-fleet-session=")
    assert "good" not in cookie
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    kept = {"Cookie": cookie.partition(";")[0]}
    assert (await browser.get("/")).status_code == 200
    await browser.post("/sign-out", headers=OWN)
    assert (await browser.get("/")).status_code == 401
    assert (await browser.get("/", headers=kept)).status_code == 401
    assert (await browser.get("/", headers={"Cookie": "__Host-fleet-session=good"})).status_code == 401


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("stranger", 403), ("outage", 503)])
async def test_token_that_does_not_allow_it_starts_no_session(
    browser: httpx.AsyncClient, token: str, status: int
) -> None:
    answer = await browser.post("/sign-in", data={"token": token, "back": "/modules"}, headers=OWN)
    assert answer.status_code == status
    assert "Set-Cookie" not in answer.headers
    assert 'name="back" value="/modules"' in answer.text


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/kymas/a?x=1&y=%20", "/kymas/a?x=1&y=%20"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("https://evil.example/", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        ("", "/"),
    ],
)
async def test_signing_in_leads_to_the_page_that_was_asked_for_and_nowhere_else(
    browser: httpx.AsyncClient, asked: str, shown: str
) -> None:
    answer = await browser.post("/sign-in", data={"token": "good", "back": asked}, headers=OWN)
    assert answer.status_code == 200
    assert f'content="0; url={shown.replace("&", "&amp;")}"' in answer.text


async def test_form_for_a_token_keeps_the_link(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/?state=Error&text=%22%3E%3Cscript%3E")
    assert 'name="back" value="/?state=Error&amp;text=%22%3E%3Cscript%3E"' in answer.text


async def test_link_of_another_site_leads_to_the_page_with_the_cookie(browser: httpx.AsyncClient) -> None:
    await browser.post("/sign-in", data={"token": "good"}, headers=OWN)
    kept, browser.cookies = browser.cookies, httpx.Cookies()  # browsers keep it back, since it is a strict one
    answer = await browser.get("/kymas/a?b=c", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'content="0; url=/kymas/a?b=c"' in answer.text
    assert "<h1>" not in answer.text
    browser.cookies = kept
    assert "<h1>a" in (await browser.get("/kymas/a?b=c", headers={"Sec-Fetch-Site": "same-origin"})).text


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("token=" + "x" * 40_000, OWN, 413),
        ("a=1&b=2&c=3", OWN, 400),
        ("\xff=%", OWN, 401),
        ("token=good", OWN | {"Sec-Fetch-Site": "cross-site"}, 403),
        ("token=good", OWN | {"Sec-Fetch-Site": "same-site"}, 403),
        ("token=good", {"Origin": "https://evil.example"}, 403),
        ("token=good", {"Origin": "https://localhost:8091"}, 403),
        ("token=good", {"Origin": "null"}, 403),
        ("token=good", {}, 403),
    ],
)
async def test_form_of_somebody_else_or_too_large_is_refused(
    browser: httpx.AsyncClient, body: str, headers: dict[str, str], status: int
) -> None:
    answer = await browser.post("/sign-in", content=body.encode("latin-1"), headers=headers)
    assert answer.status_code == status
    assert "Set-Cookie" not in answer.headers
    if status == 403:
        await browser.post("/sign-in", data={"token": "good"}, headers=OWN)
        assert (await browser.post("/sign-out", headers=headers)).status_code == 403
        assert (await browser.get("/")).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8090", 200),
        ("127.0.0.1:1234", 200),
        ("[::1]:8090", 200),
        ("fleet.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8090", 421),
        ("10.0.0.1", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
async def test_page_is_served_under_its_own_names_alone(browser: httpx.AsyncClient, host: str, status: int) -> None:
    answer = await browser.get("/", headers={"Authorization": "Bearer good", "Host": host})
    assert answer.status_code == status
    assert ("/kymas/a" in answer.text) is (status == 200)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 401), ("GET", "/static/secrets", 404), ("PUT", "/", 405), ("POST", "/sign-in", 403)],
)
async def test_every_answer_has_the_security_headers(
    browser: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await browser.request(method, path)
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_sessions_are_bounded_in_number_and_time() -> None:
    clock = ManualClock()
    sessions = OperatorSessions(clock)
    first = sessions.start("me", "first")
    others = [sessions.start(f"user-{number}", f"token-{number}") for number in range(MAX_SESSIONS)]
    assert sessions.token_of(first) == ""
    assert sessions.token_of(others[0]) == "token-0"
    own = [sessions.start("me", f"of-me-{number}") for number in range(MAX_OF_ONE_USER + 1)]
    assert [bool(sessions.token_of(each)) for each in own] == [False, *[True] * MAX_OF_ONE_USER]
    assert sessions.token_of(others[-1]), "one user with many tokens signs nobody else out"
    clock.advance(SECONDS)
    assert sessions.token_of(own[-1]) == ""
    assert "token-0" not in repr(sessions)


@pytest.mark.parametrize("path", ["/live", "/live?shown=0&state=Error", "/live?kyma=a", "/live?rollout=a"])
@pytest.mark.parametrize(("verdict", "last"), [("stranger", "signed-out"), ("wrong", "signed-out"), ("outage", "")])
async def test_open_stream_ends_for_a_user_who_may_no_longer_see_the_page(path: str, verdict: str, last: str) -> None:
    known = DemotedToken(allowed=3, then=verdict)
    app = create_app(MadeUp({"a": hostile()}), known, heartbeat_seconds=0.01)
    async with asyncio.timeout(60), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        answer = await client.get(path, headers={"Authorization": "Bearer good"})
    assert answer.status_code == 200
    assert ("event: signed-out" in answer.text) is bool(last)
    assert known.allowed == 0


@pytest.mark.parametrize("path", ["/live", "/live?kyma=a"])
async def test_open_stream_ends_with_its_session(path: str) -> None:
    app = create_app(MadeUp({"a": hostile()}), AnyRight(), heartbeat_seconds=0.01)
    async with asyncio.timeout(60), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        await client.post("/sign-in", content="token=good", headers=OWN)
        stream = asyncio.create_task(client.get(path))
        await asyncio.sleep(0.05)
        assert not stream.done()
        await client.post("/sign-out", headers=OWN)
        assert "event: signed-out" in (await stream).text


async def test_user_with_many_tokens_leaves_streams_to_others() -> None:
    app = create_app(MadeUp({"a": hostile()}), AnyRight(), heartbeat_seconds=0.01)

    async def open_stream(token: str) -> httpx.Response:
        return await client.get("/live", headers={"Authorization": f"Bearer {token}"})

    async with asyncio.timeout(60), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        greedy = [asyncio.create_task(open_stream(f"{number}-of-one")) for number in range(MAX_PAGES)]
        await eventually(lambda: sum(not each.done() for each in greedy) == OPEN_OF_ONE_USER)
        other = asyncio.create_task(open_stream("1-of-another"))
        await asyncio.sleep(0.1)
        assert not other.done(), "it is open"
        assert (await open_stream("again-of-one")).status_code == 503
        still_open = [each for each in greedy if not each.done()]
        for each in (*still_open, other):
            each.cancel()
        assert len(still_open) == OPEN_OF_ONE_USER
        await asyncio.gather(*still_open, other, return_exceptions=True)
        again = asyncio.create_task(open_stream("again-of-one"))
        await asyncio.sleep(0.1)
        assert not again.done(), "those that were closed do not count"
        again.cancel()


@pytest.mark.parametrize("path", ["/kymas/b", "/kymas/..%2f", "/kymas/b/change", "/modules/b", "/rollouts/b"])
async def test_page_of_what_is_gone_is_loaded_anew(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(path, headers={"Authorization": "Bearer good", "HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Refresh"]) == (404, "true")


@pytest.mark.parametrize("path", ["/live?shown=0", "/live?kyma=a&shown=0"])
async def test_what_has_changed_comes_with_its_time_and_through_every_proxy(path: str) -> None:
    known = DemotedToken(allowed=3, then="outage")
    app = create_app(MadeUp({"a": hostile()}), known, heartbeat_seconds=0.01)
    async with asyncio.timeout(60), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        answer = await client.get(path, headers={"Authorization": "Bearer good"})
    assert "event: counts" in answer.text or "event: reload" in answer.text
    assert answer.text.index("event: heartbeat") <= answer.text.index("event: ")
    assert answer.headers["X-Accel-Buffering"] == "no"


async def test_page_of_klm_ui_asks_for_no_token() -> None:
    link = OneTimeLink(OwnAccess(client=None, user="me"))  # type: ignore[arg-type]  # it is asked nothing
    app = create_app(MadeUp({}), link.access, own_link=link.use)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as client:
        answer = await client.get("/")
    assert answer.status_code == 401
    assert "klm ui" in answer.text
    assert "create token" not in answer.text


async def test_form_that_ends_in_the_middle_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(MadeUp({}), AnyRight())
    server = server_for(app, "127.0.0.1", 0, bounds=Bounds(connections=10, request_seconds=0.1))
    serving = asyncio.create_task(server.serve_until_cancelled())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\ntoken"
    writer.write(head.encode())
    async with asyncio.timeout(60):
        await reader.read()
    writer.close()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_open_pages_end_with_the_server_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(MadeUp({"a": hostile()}), AnyRight(), heartbeat_seconds=0.01)
    server = server_for(app, "127.0.0.1", 0, bounds=Bounds(connections=10))
    serving = asyncio.create_task(server.serve_until_cancelled())
    headers = {"Authorization": "Bearer good", "Host": "localhost"}
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=headers, trust_env=False) as client,
        client.stream("GET", "/live?kyma=a") as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        serving.cancel()
        assert [line async for line in lines]
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
