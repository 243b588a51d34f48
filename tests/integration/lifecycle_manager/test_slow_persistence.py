"""An event overtakes the write that it speaks of, because another webhook takes its time: nothing is lost by that."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from guarded_http import Bounds, server_for
from kube_runtime import Resource
from local.demo.stage import Stage
from local.demo.story import Story
from local.egress import Route, add_route
from local.ports import free_port
from tests.integration.lifecycle_manager.watching import WEBHOOKS
from tests.waiting import eventually
from tests.watcher_process import AUTHORITY, write_leaf

SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
GROUP = "cloud-resources.kyma-project.io"


class SlowWebhook:
    """Allows everything, late; counts what it was asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.asked = 0

    async def __call__(self, _: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.asked += 1
        await asyncio.sleep(self._seconds)
        review = msgspec.json.decode(body)
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        answer = msgspec.json.encode(review)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@pytest.mark.parametrize("seconds", [0.5, 5.0])
async def test_event_that_overtakes_its_write_is_not_lost(story: Story, tmp_path: Path, seconds: float) -> None:
    await story.change_volume("710Gi")
    async with slowed_down(story.stage, tmp_path, seconds) as webhook:
        started = time.monotonic()
        await story.patch_volume(f"{711 + int(seconds)}Gi")
        assert webhook.asked
        assert time.monotonic() - started >= seconds  # the event was sent all that time ago
        await story.sees_volume(
            f"{711 + int(seconds)}Gi", within=15
        )  # half of the interval, by which it would be found


@asynccontextmanager
async def slowed_down(stage: Stage, folder: Path, seconds: float) -> AsyncIterator[SlowWebhook]:
    """Have the SKR's API server ask another webhook about Infrastructures, which takes so long to answer."""
    webhook, port = SlowWebhook(seconds), free_port()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_leaf(folder, "slow", "slow.default.svc"))
    server = server_for(webhook, "127.0.0.1", port, bounds=Bounds(connections=50), tls=context)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "slow", "namespace": "default"},
        "spec": {"ports": [{"port": 443, "targetPort": port}]},
    }
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        await eventually(lambda: server.started)
        await stage.skr.apply(SERVICES, "slow", service, "default", field_manager="test")
        assert stage.skr_routes is not None
        add_route(stage.skr_routes, Route("default", "slow", 443, "127.0.0.1", port))
        await stage.skr.apply(WEBHOOKS, "slow", configuration(), field_manager="test")
        await eventually(lambda: _is_asked(stage, webhook))
        yield webhook
        await stage.skr.delete(WEBHOOKS, "slow")
        server.should_exit = True


async def _is_asked(stage: Stage, webhook: SlowWebhook) -> bool:
    """Touch an Infrastructure, in a way that nobody heeds, until the API server has taken the webhook up."""
    infrastructures: Resource[dict[str, Any]] = Resource.dynamic(
        GROUP, "v1beta1", "Infrastructure", "infrastructures", namespaced=True
    )
    for item in (await stage.skr.list(infrastructures)).items:
        metadata = item["metadata"]
        patch = {"metadata": {"annotations": {"touched": str(time.monotonic())}}}
        await stage.skr.merge_patch(
            infrastructures, metadata["name"], patch, metadata["namespace"], field_manager="test"
        )
    return webhook.asked > 0


def configuration() -> dict[str, Any]:
    bundle = base64.b64encode(AUTHORITY.certificate_pem).decode()
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["infrastructures"], "operations": ["UPDATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [
            {
                "name": "slow.example.com",
                "clientConfig": {
                    "service": {"namespace": "default", "name": "slow", "port": 443},
                    "caBundle": bundle,
                },
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 20,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
