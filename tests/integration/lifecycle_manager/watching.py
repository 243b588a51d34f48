"""What tells how the way of events from the demo's cluster is, and the objects that it consists of."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kube_runtime import Resource
from lifecycle_manager.resources import KYMAS, SECRETS
from lifecycle_manager_api import Kyma, find, names
from local.demo.cast import TLS_SECRET, project
from local.demo.stage import Stage
from tests.integration.lifecycle_manager.programs import Manager

EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


async def webhook_says(stage: Stage, status: str, reason: str) -> str | None:
    """Return the message of the SKRWebhook condition if it has a status and reason."""
    kyma: Kyma = await stage.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    condition = find(kyma.status.conditions, "SKRWebhook")
    return condition.message if condition and (condition.status, condition.reason) == (status, reason) else None


async def is_well(stage: Stage) -> bool:
    """Tell whether the condition says that the Watcher is heard and changes reach it."""
    return await webhook_says(stage, "True", "WatcherReady") is not None


async def told(stage: Stage, reason: str, since: datetime, about: str = "Kyma") -> bool:
    """Tell whether an Event has said a reason since some time."""
    events = await stage.kcp.list(EVENTS, names.KCP_NAMESPACE, field_selector=f"regarding.kind={about}")
    times = [
        (event.get("series") or {}).get("lastObservedTime") or event["eventTime"]
        for event in events.items
        if event["reason"] == reason
    ]
    return any(datetime.fromisoformat(time) >= since for time in times)


async def says_everywhere(stage: Stage, manager: Manager, reason: str, since: datetime) -> bool:
    """Tell whether the Kyma's condition, the metric and an Event all say what is wrong."""
    sample = f'lifecycle_mgr_skr_event_path_broken{{kyma_name="demo",reason="{reason}"}}'
    return (
        await webhook_says(stage, "False", reason) is not None
        and await manager.sample(sample) == 1
        and await told(stage, reason, since)
    )


@asynccontextmanager
async def kubelet(stage: Stage) -> AsyncGenerator[Path, None]:
    """Have the Watcher's files follow their Secret, as they do in a Pod."""
    mount = stage.directory / TLS_SECRET

    async def follow() -> None:
        version = ""
        while True:
            secret = await stage.skr.get(SECRETS, TLS_SECRET, names.SKR_NAMESPACE)
            if secret.metadata.resource_version != version:
                project(secret, mount)
                version = secret.metadata.resource_version
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        yield mount
        following.cancel()


def moment() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
