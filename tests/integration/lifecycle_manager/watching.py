"""What tells how the way of events from the demo's cluster is, and the objects that it consists of."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import Resource
from kyma_demo.cast import TLS_SECRET, project
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from lifecycle_manager.resources import KYMAS, SECRETS
from lifecycle_manager_api import Kyma, find, names
from tests.integration.lifecycle_manager.programs import MANAGER, Manager
from tests.waiting import eventually

EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
SERVICES: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Service", "services", namespaced=True)
WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
INFRASTRUCTURE = "Infrastructure kyma-system/default"


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


async def changes_are_told(story: Story, first: int) -> None:
    """Change the volume as the user until an event has reported a change to the control plane.

    A single one may be missed and found at an interval: an API server waits 2 s for a Watcher, and lets it pass.
    """
    sizes = count(first)

    async def is_told() -> bool:
        began = moment()
        await story.change_volume(f"{next(sizes)}Gi")
        return has_taken(story.stage, INFRASTRUCTURE, began)

    await eventually(is_told, within=120, what="a change is told by an event")


def has_taken(stage: Stage, watched: str, since: datetime, operation: str = "") -> bool:
    """Tell whether the Lifecycle Manager has taken an event about an object that was observed since some time."""
    return any(
        line["watched"] == watched
        and (not operation or line["operation"] == operation)
        and datetime.fromisoformat(line["observed_at"]) >= since
        for line in lines_of(stage.logs / f"{MANAGER}.log", "event taken")
    )


def lines_of(log: Path, message: str = "") -> list[dict[str, Any]]:
    """Return what a program has logged, or said with one message; a line that is being written is none yet."""
    whole = log.read_bytes().rpartition(b"\n")[0].splitlines() if log.exists() else []
    wanted = message.encode()
    lines = [msgspec.json.decode(line) for line in whole if line.startswith(b"{") and wanted in line]
    return [line for line in lines if not message or line.get("msg") == message]


def went_wrong(line: dict[str, Any]) -> bool:
    """Tell whether a line of a Watcher's log says that an event was not believed, or whoever was to take it was not.

    That somebody took too long is no such thing: the event is sent again. It shows as a time-out or, where one replica
    waits for another, as a 503.
    """
    if line["msg"] == "event refused":
        return True
    reason = str(line.get("reason", ""))
    return line["msg"] == "event not delivered" and not (reason == "503" or "Timeout" in reason)


def distrusted(stage: Stage) -> list[str]:
    """Return how the API server of the user cluster has said that it does not trust the Watcher."""
    log = stage.skr_kubeconfig.parent / "kube-apiserver.log"
    return [line for line in log.read_text(errors="replace").splitlines() if "x509" in line and "skr-webhook" in line]


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
