"""A slow webhook beside that of the Watcher, so that a write in the user cluster takes as long as a test needs."""

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
from kyma_demo.environment import Environment
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager_api import names
from tests.kinds import SERVICES, WEBHOOKS
from tests.waiting import eventually
from tests.watcher_process import CA, write_leaf

BLOCKED_SECONDS = 60.0  # longer than the longest timeout of a webhook


@dataclass(eq=False)
class SlowWebhook:
    """Allows every request after a delay, refuses pending ones at its end, and counts requests."""

    seconds: float = 0.0
    requests: int = 0
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.requests += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self.stopped.wait()
        review = msgspec.json.decode(body)
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": not self.stopped.is_set()}
        answer = msgspec.json.encode(review)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def slow_updates(environment: Environment, folder: Path, seconds: float) -> AsyncIterator[SlowWebhook]:
    """Delay every change of an Infrastructure."""

    async def touch() -> None:
        """Change an annotation of the Infrastructures, which causes no event."""
        for item in (await environment.skr.list(INFRASTRUCTURES)).items:
            metadata = item["metadata"]
            patch = {"metadata": {"annotations": {"touched": str(time.monotonic())}}}
            await environment.skr.merge_patch(
                INFRASTRUCTURES, metadata["name"], patch, metadata["namespace"], field_manager="test"
            )

    async with _beside_the_watcher(environment, folder, INFRASTRUCTURES, "UPDATE", "true", touch) as webhook:
        webhook.seconds = seconds
        yield webhook


@asynccontextmanager
async def blocked_config_maps(environment: Environment, folder: Path, prefix: str) -> AsyncIterator[SlowWebhook]:
    """Block the creation of ConfigMaps with a prefix in the user cluster until the block ends."""
    name = f"{prefix}touched"

    async def touch() -> None:
        document = {"metadata": {"name": name}}
        await environment.skr.apply(
            CONFIG_MAPS, name, document, names.SKR_NAMESPACE, field_manager="test", dry_run=True
        )

    condition = f"object.metadata.name.startsWith('{prefix}')"
    async with _beside_the_watcher(environment, folder, CONFIG_MAPS, "CREATE", condition, touch) as webhook:
        webhook.seconds = BLOCKED_SECONDS
        yield webhook


@asynccontextmanager
async def _beside_the_watcher(
    environment: Environment,
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
        await environment.skr.apply(SERVICES, "slow", service, "default", field_manager="test")
        assert environment.skr_routes is not None
        add_route(environment.skr_routes, Route("default", "slow", 443, "127.0.0.1", port))
        document = _configuration(resource, operation, condition)
        await environment.skr.apply(WEBHOOKS, "slow", document, field_manager="test")
        try:
            await eventually(lambda: _is_called(webhook, touch))
            yield webhook
        finally:
            await environment.skr.delete(WEBHOOKS, "slow")
            webhook.stopped.set()
            server.should_exit = True


async def _is_called(webhook: SlowWebhook, touch: Callable[[], Awaitable[None]]) -> bool:
    await touch()
    return webhook.requests > 0


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
