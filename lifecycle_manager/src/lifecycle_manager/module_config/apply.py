"""Carries out what was planned for a module's configuration, in KCP."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, assert_never

import msgspec
import structlog

from kube_runtime import Client, NotFound
from lifecycle_manager.module_config import plan as planned
from lifecycle_manager.module_config.observe import Snapshot
from lifecycle_manager.resources import FIELD_MANAGER, MODULE_CONFIGS
from lifecycle_manager.skr import ObjectReference, Trace
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import Condition, find, names, set_condition

SYNCED = "Synced"

log = structlog.get_logger("module_config")


async def act(
    kcp: Client,
    snapshot: Snapshot,
    actions: Iterable[planned.Action],
    traces: Mapping[ObjectReference, Trace],
    latency: ChangeLatency,
    now: datetime,
) -> None:
    """Carry out the actions in their order. Raises KubeError at the first that fails."""
    for action in actions:
        match action:
            case planned.WriteModuleConfig():
                trace = traces.get(action.source, Trace())
                await _write(kcp, snapshot, action, trace)
                latency.module_config_written(trace.observed_at)
            case planned.DeleteModuleConfig(name):
                await _delete(kcp, snapshot, name)
            case planned.MarkSynced():
                await _mark(kcp, snapshot, action, now)
            case _:
                assert_never(action)


async def _write(kcp: Client, snapshot: Snapshot, action: planned.WriteModuleConfig, trace: Trace) -> None:
    annotations = {
        key: value
        for key, value in ((names.TRACEPARENT, trace.traceparent), (names.OBSERVED_AT, trace.observed_at))
        if value
    }
    document = _document(snapshot, action.name) | {
        "spec": {
            "kyma": snapshot.kyma,
            "module": snapshot.module,
            "resource": action.text,
            "resourceRef": msgspec.to_builtins(action.reference),
        }
    }
    document["metadata"] |= {
        "labels": {
            names.KYMA_NAME: snapshot.kyma,
            names.MODULE_NAME: snapshot.module,
            names.MANAGED_BY: names.LIFECYCLE_MANAGER,
        },
        "annotations": annotations,
    }
    await kcp.apply(MODULE_CONFIGS, action.name, document, snapshot.namespace, field_manager=FIELD_MANAGER)
    log.info(
        "module config written",
        kyma=snapshot.kyma,
        module=snapshot.module,
        name=action.name,
        source=str(action.source),
        resource_version=action.reference.resource_version,
        event_id=trace.event_id,
        traceparent=trace.traceparent,
        observed_at=trace.observed_at,
    )


async def _delete(kcp: Client, snapshot: Snapshot, name: str) -> None:
    try:
        await kcp.delete(MODULE_CONFIGS, name, snapshot.namespace, propagation="Foreground")
    except NotFound:
        return
    log.info("module config deleted", kyma=snapshot.kyma, module=snapshot.module, name=name)


async def _mark(kcp: Client, snapshot: Snapshot, action: planned.MarkSynced, now: datetime) -> None:
    before = next((config for config in snapshot.existing if config.metadata.name == action.name), None)
    said = Condition(type=SYNCED, status=action.status, reason=action.reason, message=action.message)
    condition = find(set_condition(before.status.conditions if before is not None else (), said, now), SYNCED)
    document = _document(snapshot, action.name) | {"status": {"conditions": [msgspec.to_builtins(condition)]}}
    try:
        await kcp.apply(
            MODULE_CONFIGS,
            action.name,
            document,
            snapshot.namespace,
            field_manager=FIELD_MANAGER,
            subresource="status",
        )
    except NotFound:
        return  # deleted since; there is nothing left to say it on


def _document(snapshot: Snapshot, name: str) -> dict[str, Any]:
    return {
        "apiVersion": MODULE_CONFIGS.api_version,
        "kind": MODULE_CONFIGS.kind,
        "metadata": {"name": name, "namespace": snapshot.namespace},
    }
