"""Reads a Kyma with its parts as documents, and draws when what was done."""

import asyncio
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from kube_runtime import Client, JsonObject, Resource
from kyma_fleet.explanation.facts import read_events
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_fleet.text import cut, padded, plain, wrapped
from kyma_fleet.timeline.moments import Moment, last_change, moments, newest_trace
from lifecycle_manager.resources import MANIFESTS, MODULE_CONFIGS, RAW_KYMAS, SYNC_RESOURCES
from lifecycle_manager_api import names

PAUSE_SECONDS = 60.0
SHOWN = 40
BAR, MAX_BY = 10, 24


async def trace(kcp: Client, screen: Screen, name: str, module: str, *, everything: bool) -> int:
    """Print the timeline of the last change, or of everything that is recorded."""
    kyma = await kcp.get(RAW_KYMAS, name, names.KCP_NAMESPACE)
    selector = f"{names.KYMA_NAME}={name}" + (f",{names.MODULE_NAME}={module}" if module else "")
    lists = await asyncio.gather(
        *(kcp.list(_raw(each), label_selector=selector) for each in (MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES))
    )
    kinds = (MANIFESTS.kind, MODULE_CONFIGS.kind, SYNC_RESOURCES.kind)
    parts = [{"kind": kind, **item} for kind, found in zip(kinds, lists, strict=True) for item in found.items]
    documents = [*([] if module else [{"kind": "Kyma", **kyma}]), *parts]
    events = await read_events(kcp, [_identity(each) for each in documents])
    found = moments(documents, events)
    if not found:
        raise Problem(f"nothing is recorded of {module or 'any module'} in Kyma {name}; klm explain {name} says why")
    print_timeline((found if everything else last_change(found, PAUSE_SECONDS))[-SHOWN:], screen)
    if trace_id := newest_trace(documents):
        screen.print(f"\ntrace {trace_id}   # of the newest change, in the logs, and in the traces if it was sampled")
    return 0


def print_timeline(found: list[Moment], screen: Screen) -> None:
    """Print moments with their distance from the first, and a mark at their place between first and last."""
    first, last = found[0].at, found[-1].at
    screen.print(f"from {first:%Y-%m-%d %H:%M:%S} UTC")
    by = min(max(len(plain(each.by)) for each in found), MAX_BY)
    for each in found:
        head = f"{_since(each.at, first)} {_bar(each.at, first, last)} {padded(cut(plain(each.by), by), by)} "
        lines = wrapped(plain(each.what), screen.width, len(head))
        screen.print(f"{head}{lines[0]}")
        for line in lines[1:]:
            screen.print(f"{' ' * len(head)}{line}")


def _since(at: datetime, first: datetime) -> str:
    return f"{(at - first).total_seconds():6.1f} s"


def _bar(at: datetime, first: datetime, last: datetime) -> str:
    whole = (last - first).total_seconds() or 1.0
    place = round((at - first).total_seconds() / whole * (BAR - 1))
    return f"{'─' * place}●{' ' * (BAR - 1 - place)}"


def _raw(resource: Resource[Any]) -> Resource[JsonObject]:
    return Resource.dynamic(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced)


def _identity(document: JsonObject) -> SimpleNamespace:
    metadata = document["metadata"]
    return SimpleNamespace(
        kind=document["kind"],
        metadata=SimpleNamespace(namespace=metadata.get("namespace", ""), name=metadata["name"]),
    )
