"""The path of events from the user cluster to the control plane: its objects, and how its state is reported."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from kyma_demo.environment import Environment
from kyma_demo.programs import TLS_SECRET, project
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import Kyma, find, names
from tests.integration.lifecycle_manager.programs import MANAGER, Manager
from tests.kinds import EVENTS
from tests.waiting import eventually

INFRASTRUCTURE = "Infrastructure kyma-system/default"


async def webhook_message(environment: Environment, status: str, reason: str) -> str | None:
    kyma: Kyma = await environment.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    condition = find(kyma.status.conditions, "SKRWebhook")
    return condition.message if condition and (condition.status, condition.reason) == (status, reason) else None


async def is_watcher_ready(environment: Environment) -> bool:
    return await webhook_message(environment, "True", "WatcherReady") is not None


async def is_event_recorded(environment: Environment, reason: str, since: datetime, about: str = "Kyma") -> bool:
    events = await environment.kcp.list(EVENTS, names.KCP_NAMESPACE, field_selector=f"regarding.kind={about}")
    times = [
        (event.get("series") or {}).get("lastObservedTime") or event["eventTime"]
        for event in events.items
        if event["reason"] == reason
    ]
    return any(datetime.fromisoformat(time) >= since for time in times)


async def is_reported_everywhere(environment: Environment, manager: Manager, reason: str, since: datetime) -> bool:
    """Return whether the Kyma's condition, the metric and an Event report a reason."""
    sample = f'lifecycle_mgr_skr_event_path_broken{{kyma_name="demo",reason="{reason}"}}'
    return (
        await webhook_message(environment, "False", reason) is not None
        and await manager.sample(sample) == 1
        and await is_event_recorded(environment, reason, since)
    )


async def changes_are_reported(walkthrough: Walkthrough, first: int) -> None:
    """Change the volume as the user until a change was reported by an event.

    A single change may be found by polling instead: the API server waits 2 s for the Watcher, and then allows it.
    """
    sizes = count(first)

    async def is_reported() -> bool:
        began = moment()
        await walkthrough.change_volume(f"{next(sizes)}Gi")
        return has_received(walkthrough.environment, INFRASTRUCTURE, began)

    await eventually(is_reported, within=120, what="a change is reported by an event")


def has_received(environment: Environment, watched: str, since: datetime, operation: str = "") -> bool:
    """Return whether the Lifecycle Manager has received an event of an object observed since some time."""
    return any(
        line["watched"] == watched
        and (not operation or line["operation"] == operation)
        and datetime.fromisoformat(line["observed_at"]) >= since
        for line in lines_of(environment.logs / f"{MANAGER}.log", "event taken")
    )


def lines_of(log: Path, message: str = "") -> list[dict[str, Any]]:
    """Return the complete log lines of a program, all or those with one message."""
    whole = log.read_bytes().rpartition(b"\n")[0].splitlines() if log.exists() else []
    wanted = message.encode()
    lines = [msgspec.json.decode(line) for line in whole if line.startswith(b"{") and wanted in line]
    return [line for line in lines if not message or line.get("msg") == message]


def is_failure(line: dict[str, Any]) -> bool:
    """Return whether a line of a Watcher's log reports a refused event or a failed TLS connection.

    A timeout is not a failure, because the event is sent again; between replicas it appears as a 503.
    """
    if line["msg"] == "event refused":
        return True
    reason = str(line.get("reason", ""))
    return line["msg"] == "event not delivered" and not (reason == "503" or "Timeout" in reason)


def tls_errors(environment: Environment) -> list[str]:
    """Return the log lines of the SKR's API server about an untrusted certificate of the Watcher."""
    log = environment.skr_kubeconfig.parent / "kube-apiserver.log"
    return [line for line in log.read_text(errors="replace").splitlines() if "x509" in line and "skr-webhook" in line]


@asynccontextmanager
async def kubelet(environment: Environment) -> AsyncGenerator[Path, None]:
    """Update the Watcher's files when their Secret changes, as the kubelet does."""
    mount = environment.directory / TLS_SECRET

    async def follow() -> None:
        version = ""
        while True:
            secret = await environment.skr.get(SECRETS, TLS_SECRET, names.SKR_NAMESPACE)
            if secret.metadata.resource_version != version:
                project(secret, mount)
                version = secret.metadata.resource_version
            await asyncio.sleep(0.25)

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        yield mount
        following.cancel()


def moment() -> datetime:
    return datetime.now(UTC)
