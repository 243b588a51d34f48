"""The proxy causes the faults on which the fault tests rely."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from tests.chaos.proxy import Proxy, status
from tests.kubeconfigs import kubeconfig
from tests.waiting import eventually


class Server:
    """Echoes requests; a watch sends each line of `lines`."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            body = await request.read()
            return web.Response(text=f"{request.method} {request.path_qs} {body.decode()}")
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await self.lines.get():
            await response.write(line)
        return response


@pytest_asyncio.fixture
async def server() -> Server:
    return Server()


@pytest_asyncio.fixture
async def proxy(server: Server, tmp_path: Path) -> AsyncIterator[Proxy]:
    http = web.Server(server.serve, handler_cancellation=True)
    listener = await asyncio.get_running_loop().create_server(http, "127.0.0.1", 0)
    file = tmp_path / "kubeconfig"
    port = listener.sockets[0].getsockname()[1]
    file.write_bytes(msgspec.json.encode(kubeconfig({}, server=f"http://127.0.0.1:{port}")))
    async with Proxy.start(file) as running:
        yield running
    listener.close()
    await http.shutdown(0)


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as made:
        yield made


async def text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        return await answer.text()


async def test_requests_and_answers_go_through_unchanged(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    async with session.post(f"{proxy.url}/a/b?x=1%2F2", data=b"body") as answer:
        assert await answer.text() == "POST /a/b?x=1%2F2 body"
    assert [(asked.method, asked.path, asked.query) for asked in proxy.asked] == [("POST", "/a/b", {"x": "1/2"})]


async def test_rule_answers_instead_of_the_server(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    refusal = status(429, "TooManyRequests", Retry_After="3")
    with proxy.answering(lambda asked: refusal if asked.path == "/busy" else None):
        async with session.get(f"{proxy.url}/busy") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
            assert (await answer.json())["reason"] == "TooManyRequests"
        assert await text(session, f"{proxy.url}/idle") == "GET /idle "
    assert await text(session, f"{proxy.url}/busy") == "GET /busy "


async def test_target_of_a_request_can_be_changed(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.change_target = lambda asked: {**asked.query, "x": "2"}
    assert await text(session, f"{proxy.url}/?x=1") == "GET /?x=2 "


async def test_lines_of_a_watch_are_passed_on_at_once_and_can_be_changed(
    proxy: Proxy, server: Server, session: aiohttp.ClientSession
) -> None:
    proxy.change_line = bytes.upper
    async with session.get(f"{proxy.url}/?watch=true") as answer:
        server.lines.put_nowait(b"one\ntw")
        assert await answer.content.readline() == b"ONE\n"
        server.lines.put_nowait(b"o\n")
        assert await answer.content.readline() == b"TWO\n"
        await proxy.say(b"between")
        assert await answer.content.readline() == b"between\n"
        server.lines.put_nowait(b"")
        assert await answer.content.read() == b""


async def test_watch_is_aborted_in_the_middle_of_a_line(
    proxy: Proxy, server: Server, session: aiohttp.ClientSession
) -> None:
    proxy.cut_in_next_line()
    async with session.get(f"{proxy.url}/?watch=true") as answer:
        server.lines.put_nowait(b"12345678\n")
        assert await answer.content.readexactly(4) == b"1234"
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()


async def test_silent_watch_passes_no_lines_on_and_stays_open(
    proxy: Proxy, server: Server, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{proxy.url}/?watch=true") as answer:
        await eventually(lambda: proxy.open_watches == 1)
        proxy.silence_watches()
        server.lines.put_nowait(b"one\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answer.content.readline(), 0.1)
        assert proxy.open_watches == 1


async def test_stalled_proxy_holds_requests_back_until_it_resumes(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.stall()
    request = asyncio.create_task(text(session, f"{proxy.url}/"))
    await eventually(lambda: proxy.asked)
    assert not request.done()
    proxy.resume()
    assert await request == "GET / "


async def test_answers_can_be_delayed(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.delay = lambda asked: 0.1 if asked.path == "/slow" else 0.0
    clock = asyncio.get_running_loop().time
    began = clock()
    assert await text(session, f"{proxy.url}/slow") == "GET /slow "
    assert clock() - began >= 0.1


async def test_refusing_proxy_is_like_a_server_that_is_down(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{proxy.url}/?watch=true") as answer:
        await proxy.refuse()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
    with pytest.raises(aiohttp.ClientConnectorError):
        await text(session, f"{proxy.url}/")
    await proxy.accept()
    assert await text(session, f"{proxy.url}/") == "GET / "
