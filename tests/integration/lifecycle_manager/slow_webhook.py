"""A webhook beside the Watcher's that takes its time, so that a write in the user cluster lasts as a test wants."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from http_guard import Bounds, server_for
from kube_runtime import Resource
from kyma_demo.stage import Stage
from kyma_demo.story import INFRASTRUCTURES
from kyma_demo.witness import CONFIG_MAPS
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.watching import SERVICES, WEBHOOKS
from tests.waiting import eventually
from tests.watcher_process import CA, write_leaf

HELD_SECONDS = 60.0  # longer than an API server waits for any webhook


@dataclass(eq=False)
class SlowWebhook:
    """Allows everything, so many seconds late, and refuses what waits at the end; counts what it was asked."""

    seconds: float = 0.0
    asked: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.asked += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self.over.wait()
        review = msgspec.json.decode(body)
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": not self.over.is_set()}
        answer = msgspec.json.encode(review)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def slow_changes(stage: Stage, folder: Path, seconds: float) -> AsyncIterator[SlowWebhook]:
    """Have every change of an Infrastructure take so long."""

    async def touch() -> None:
        """Touch Infrastructures in a way that nobody heeds."""
        for item in (await stage.skr.list(INFRASTRUCTURES)).items:
            metadata = item["metadata"]
            patch = {"metadata": {"annotations": {"touched": str(time.monotonic())}}}
            await stage.skr.merge_patch(
                INFRASTRUCTURES, metadata["name"], patch, metadata["namespace"], field_manager="test"
            )

    async with _beside_the_watcher(stage, folder, INFRASTRUCTURES, "UPDATE", "true", touch) as webhook:
        webhook.seconds = seconds
        yield webhook


@asynccontextmanager
async def held_config_maps(stage: Stage, folder: Path, prefix: str) -> AsyncIterator[SlowWebhook]:
    """Have no ConfigMap come into the user cluster while the block runs whose name begins so."""
    name = f"{prefix}touched"

    async def touch() -> None:
        document = {"metadata": {"name": name}}
        await stage.skr.apply(CONFIG_MAPS, name, document, names.SKR_NAMESPACE, field_manager="test", dry_run=True)

    condition = f"object.metadata.name.startsWith('{prefix}')"
    async with _beside_the_watcher(stage, folder, CONFIG_MAPS, "CREATE", condition, touch) as webhook:
        webhook.seconds = HELD_SECONDS
        yield webhook


@asynccontextmanager
async def _beside_the_watcher(
    stage: Stage,
    folder: Path,
    resource: Resource[Any],
    operation: str,
    condition: str,
    touch: Callable[[], Awaitable[None]],
) -> AsyncIterator[SlowWebhook]:
    webhook, port = SlowWebhook(), free_port()
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
        document = _configuration(resource, operation, condition)
        await stage.skr.apply(WEBHOOKS, "slow", document, field_manager="test")
        try:
            await eventually(lambda: _is_asked(webhook, touch))
            yield webhook
        finally:
            await stage.skr.delete(WEBHOOKS, "slow")
            webhook.over.set()
            server.should_exit = True


async def _is_asked(webhook: SlowWebhook, touch: Callable[[], Awaitable[None]]) -> bool:
    """Tell whether the API server has taken the webhook up."""
    await touch()
    return webhook.asked > 0


def _configuration(resource: Resource[Any], operation: str, condition: str) -> dict[str, Any]:
    bundle = base64.b64encode(CA.certificate_pem).decode()
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "resources": [resource.plural],
        "operations": [operation],
    }
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
                "matchConditions": [{"name": "chosen", "expression": condition}],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
