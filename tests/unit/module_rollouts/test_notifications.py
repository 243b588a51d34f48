"""Notifications of rollouts: to a real HTTP server, that fails first, signed, once for each state."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from kube_runtime import Client
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS, SECRETS, Secret
from lifecycle_manager.module_rollouts import NotificationSettings, setup_notifications
from lifecycle_manager.module_rollouts.notification import MIN_KEY_BYTES, NotificationFailed, receiver_in
from lifecycle_manager.rollout.change_brake import DEFAULT_WAVES
from lifecycle_manager_api import ModuleRollout
from tests.waiting import eventually
from tests.world import KCP, World, open_world

KEY = b"k" * MIN_KEY_BYTES
NAME = "keda-regular-2"
ANSWERS = {200: "OK", 500: "Internal Server Error", 302: "Found"}


@dataclass(eq=False)
class Webhook:
    """An HTTP server that answers with these codes, then with 200, and keeps what it got."""

    codes: list[int]
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = dict(line.lower().split(": ", 1) for line in head if line)
        lines = {line.partition(":")[0].lower(): line.partition(": ")[2] for line in head if line}
        self.got.append((lines, await reader.readexactly(int(headers["content-length"]))))
        code = self.codes.pop(0) if self.codes else 200
        location = f"location: {self.url}\r\n" if code == 302 else ""
        writer.write(
            f"HTTP/1.1 {code} {ANSWERS[code]}\r\n{location}content-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def webhook(*codes: int) -> AsyncIterator[Webhook]:
    found = Webhook(list(codes))
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    async with server:
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rollouts"
        yield found


def secret_with(url: str, key: bytes = KEY) -> dict[str, Any]:
    data = {"url": url.encode(), "key": b"whsec_" + base64.b64encode(key)}
    return {
        "metadata": {"name": "webhook", "namespace": KCP},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


@asynccontextmanager
async def notifying(url: str) -> AsyncIterator[World]:
    async with open_world() as world:
        setup_notifications(world.manager, NotificationSettings("webhook", allows_http=True))
        await world.kcp.create(SECRETS, secret_with(url), KCP, field_manager="operator")
        strategy = msgspec.to_builtins(DEFAULT_WAVES)
        spec = {"moduleName": "keda", "channel": "regular", "version": "2.0.0", "strategy": strategy}
        document = {"metadata": {"name": NAME, "namespace": KCP}, "spec": spec}
        await world.kcp.create(MODULE_ROLLOUTS, document, KCP, field_manager="test")
        async with world.running():
            yield world


async def enter(world: World, phase: str) -> None:
    at = world.clock.now().isoformat()
    condition = {"type": "Progressing", "status": "True", "reason": phase, "message": "", "lastTransitionTime": at}
    status = {"phase": phase, "message": f"it is {phase}", "conditions": [condition]}
    await world.kcp.merge_patch(MODULE_ROLLOUTS, NAME, {"status": status}, KCP, subresource="status")


async def recorded(kcp: Client) -> str:
    found: ModuleRollout = await kcp.get(MODULE_ROLLOUTS, NAME, KCP)
    return found.status.notified


async def test_state_is_sent_signed_until_the_webhook_takes_it_and_not_again() -> None:
    async with webhook(500, 302) as server, notifying(server.url) as world:
        await enter(world, "Halted")
        await eventually(lambda: recorded(world.kcp))
        assert len(server.got) == 3, "no redirect was followed"
        assert len({body for _, body in server.got}) == 1
        headers, body = server.got[-1]
        event = msgspec.json.decode(body)
        assert (event["specversion"], event["type"]) == ("1.0", "operator.kyma-project.io.modulerollout.halted.v1")
        assert (event["data"]["module"], event["data"]["phase"]) == ("keda", "Halted")
        assert headers["content-type"].startswith("application/cloudevents+json")
        signed = f"{event['id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{wanted}"
        assert headers["webhook-id"] == event["id"] == await recorded(world.kcp)

        await world.kcp.merge_patch(MODULE_ROLLOUTS, NAME, {"spec": {"paused": True}}, KCP)
        await enter(world, "Completed")
        await eventually(lambda: len(server.got) == 4)
        assert msgspec.json.decode(server.got[-1][1])["data"]["phase"] == "Completed"


@pytest.mark.parametrize(
    ("url", "key", "why"),
    [
        ("http://example.com/", KEY, "https"),
        ("ftp://example.com/", KEY, "https"),
        ("https:///path", KEY, "https"),
        (f"https://{'a' * 64}.example.com/", KEY, "URL"),
        ("https://example.com/", b"short", "24 bytes"),
    ],
)
def test_secret_that_is_not_safe_is_refused_without_showing_it(url: str, key: bytes, why: str) -> None:
    secret = msgspec.convert(secret_with(url, key), Secret)
    with pytest.raises(NotificationFailed, match=why) as raised:
        receiver_in(secret, "webhook", allows_http=False)
    assert base64.b64encode(key).decode() not in str(raised.value)


def test_secret_that_is_missing_is_named() -> None:
    with pytest.raises(NotificationFailed, match="kcp-system/webhook does not exist"):
        receiver_in(None, "webhook", allows_http=False)
