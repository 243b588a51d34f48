"""Reads what an explanation stands on from the API server of the control plane: for `klm`, and Events for the page."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from kube_runtime import Client, JsonObject
from kube_runtime.event_recorder import EVENTS
from kyma_fleet.control_plane import not_found
from kyma_fleet.documents import raw
from kyma_fleet.explanation.facts import Facts, Occurrence, occurrence_of, regarding
from kyma_fleet.explanation.moments import Moment, moments
from kyma_fleet.screen import LeftOut
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    RAW_KYMAS,
    SYNC_RESOURCES,
)
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager.rollout.schedule import Timing, deciding, release_times
from lifecycle_manager.rollout.target import targets_of
from lifecycle_manager_api import names

MAX_EVENTS = 500
"""How many Events of one Kyma are kept while they are read; the newest of them are shown."""
MAX_SELECTED = 10
"""The Events of so many objects are selected by the API server, one list each; of more, all Events are read."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of `klm run` that the resources in the control plane do not show."""

    max_delay: timedelta = timedelta(minutes=5)
    policy: MaintenancePolicy | None = None


async def read_facts(kcp: Client, name: str, rules: Rules) -> Facts:
    """Read a Kyma and all that belongs to it. Raises KubeError."""
    kyma = await kcp.get(KYMAS, name, names.KCP_NAMESPACE)
    own, left_out = f"{names.KYMA_NAME}={name}", LeftOut()
    templates, releases, rollouts, manifests, configs, sync_resources = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE, unreadable=left_out),
        kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=own),
        kcp.list(MODULE_CONFIGS, label_selector=own),
        kcp.list(SYNC_RESOURCES, label_selector=own),
    )
    now = datetime.now(UTC)
    offer = Offer.of(templates.items, releases.items)
    deciders, changed = deciding(offer, rollouts.items, targets_of(offer))
    parts: tuple[Any, ...] = (kyma, *manifests.items, *configs.items, *sync_resources.items)
    return Facts(
        now,
        kyma,
        offer,
        Timing(
            now,
            release_times(offer),
            rules.max_delay,
            rules.policy,
            rollouts=deciders,
            changed_templates=changed,
        ),
        manifests.items,
        configs.items,
        sync_resources.items,
        await read_events(kcp, parts),
    )


async def read_events(kcp: Client, parts: Collection[Any]) -> tuple[Occurrence, ...]:
    """Return the Events about these objects, the newest last. Raises KubeError."""
    wanted = {(each.kind, each.metadata.namespace, each.metadata.name) for each in parts}
    places = sorted({(namespace or names.KCP_NAMESPACE, name) for _, namespace, name in wanted})
    if len(places) > MAX_SELECTED:
        lists = [kcp.pages(EVENTS, namespace) for namespace in sorted({each for each, _ in places})]
    else:
        lists = [kcp.pages(EVENTS, namespace, field_selector=f"regarding.name={name}") for namespace, name in places]
    found: list[Occurrence] = []
    for pages in lists:
        async for page in pages:
            found += [occurrence_of(each) for each in page.items if regarding(each) in wanted]
            if len(found) > 2 * MAX_EVENTS:
                found = sorted(found, key=lambda each: each.at)[-MAX_EVENTS:]
    return tuple(sorted(found, key=lambda each: each.at))


async def read_documents(kcp: Client, kyma: str, module: str = "") -> tuple[JsonObject, ...]:
    """Return a Kyma with all that belongs to it, or the parts of one module, as documents. Raises KubeError."""
    selector = f"{names.KYMA_NAME}={kyma}" + (f",{names.MODULE_NAME}={module}" if module else "")
    itself, *parts = await asyncio.gather(
        kcp.list(RAW_KYMAS, names.KCP_NAMESPACE, field_selector=f"metadata.name={kyma}"),
        kcp.list(raw(MANIFESTS), names.KCP_NAMESPACE, label_selector=selector),
        *(kcp.list(raw(each), label_selector=selector) for each in (MODULE_CONFIGS, SYNC_RESOURCES)),
    )
    if not itself.items:
        raise not_found(KYMAS, kyma)
    return (*(() if module else itself.items), *(item for found in parts for item in found.items))


async def read_moments(kcp: Client, documents: Sequence[JsonObject]) -> list[Moment]:
    """Return what was done to these objects, as they and their Events record it, the oldest first. Raises KubeError."""
    return moments(documents, await read_events(kcp, [_identity(each) for each in documents]))


def _identity(document: JsonObject) -> SimpleNamespace:
    metadata = document["metadata"]
    return SimpleNamespace(
        kind=document["kind"],
        metadata=SimpleNamespace(namespace=metadata.get("namespace", ""), name=metadata["name"]),
    )
