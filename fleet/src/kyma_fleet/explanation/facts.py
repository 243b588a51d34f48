"""What an explanation stands on: one Kyma with all that belongs to it in the control plane, and its last Events."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kube_runtime import Client, JsonObject
from kube_runtime.event_recorder import EVENTS
from lifecycle_manager.kyma.resolution import Resolution, resolve
from lifecycle_manager.kyma.wanted import installed_in
from lifecycle_manager.module_catalog import Offer, is_mandatory_manifest, module_of_manifest
from lifecycle_manager.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
    DatedReleaseMeta,
)
from lifecycle_manager.rollout import Timing
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager.rollout.schedule import release_times
from lifecycle_manager_api import (
    Kyma,
    KymaModule,
    KymaSpec,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    State,
    SyncResource,
    names,
)

MAX_EVENTS = 500
"""How many Events of one Kyma are kept while they are read; the newest of them are shown."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One Kubernetes Event: the last time, how often, and about which object."""

    at: datetime
    count: int
    kind: str
    reason: str
    note: str
    about: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that an explanation depends on."""

    now: datetime
    kyma: Kyma
    offer: Offer
    timing: Timing
    releases: tuple[DatedReleaseMeta, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    events: tuple[Occurrence, ...] = ()

    def requested(self) -> KymaSpec:
        """Return what users ask for, as far as the control plane knows: by the status, or for a new Kyma by its spec.

        The wishes themselves are in the cluster, where Lifecycle Manager reads them.
        """
        status = self.kyma.status
        if not status.conditions:
            return self.kyma.spec
        modules = tuple(
            KymaModule(name=each.name, channel=each.channel or None, managed=each.state is not State.UNMANAGED)
            for each in status.modules
            if each.state is not State.DELETING
        )
        return KymaSpec(channel=status.active_channel or self.kyma.spec.channel, modules=modules)

    def resolutions(self) -> dict[str, Resolution]:
        """Return what each requested module stands for, by the rules that Lifecycle Manager applies."""
        chosen = {module_of_manifest(each): each for each in self.manifests if not is_mandatory_manifest(each)}
        found = resolve(
            self.requested(),
            self.kyma.metadata,
            offer=self.offer,
            installed=installed_in(self.kyma, chosen),
            timing=self.timing,
        )
        return {each.module.name: each for each in found}

    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules that the Kyma has in any way: requested, installed, mandatory, leaving."""
        known = [*(each.name for each in self.kyma.status.modules), *map(module_of_manifest, self.manifests)]
        return tuple(dict.fromkeys(each for each in known if each))


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of `klm run` that the resource in the control plane do not show."""

    max_delay: timedelta = timedelta(minutes=5)
    policy: MaintenancePolicy | None = None


async def read_facts(kcp: Client, name: str, rules: Rules) -> Facts:
    """Read a Kyma and all that belongs to it. Raises KubeError."""
    kyma = await kcp.get(KYMAS, name, names.KCP_NAMESPACE)
    own = f"{names.KYMA_NAME}={name}"
    templates, releases, manifests, configs, sync_resources = await asyncio.gather(
        kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE),
        kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=own),
        kcp.list(MODULE_CONFIGS, label_selector=own),
        kcp.list(SYNC_RESOURCES, label_selector=own),
    )
    now = datetime.now(UTC)
    parts: tuple[Any, ...] = (kyma, *manifests.items, *configs.items, *sync_resources.items)
    return Facts(
        now,
        kyma,
        offer_of(templates.items, releases.items),
        Timing(now, dict(release_times(releases.items)), rules.max_delay, rules.policy),
        releases.items,
        manifests.items,
        configs.items,
        sync_resources.items,
        await read_events(kcp, parts),
    )


def offer_of(templates: Iterable[ModuleTemplate], releases: Iterable[DatedReleaseMeta]) -> Offer:
    """Return what the control plane offers."""
    return Offer.of(templates, releases)


async def read_events(kcp: Client, parts: Collection[Any]) -> tuple[Occurrence, ...]:
    """Return the Events about these objects, the newest last."""
    wanted = {(each.kind, each.metadata.namespace, each.metadata.name) for each in parts}
    found: list[Occurrence] = []
    for namespace in sorted({each.metadata.namespace or names.KCP_NAMESPACE for each in parts}):
        async for page in kcp.pages(EVENTS, namespace):
            found += [occurrence_of(each) for each in page.items if _regarding(each) in wanted]
            if len(found) > 2 * MAX_EVENTS:
                found = sorted(found, key=lambda each: each.at)[-MAX_EVENTS:]
    return tuple(sorted(found, key=lambda each: each.at))


def occurrence_of(event: JsonObject) -> Occurrence:
    """Return what matters of an Event."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("eventTime"), event.get("deprecatedLastTimestamp"))
    at = next((each for each in times if each), None) or event["metadata"].get("creationTimestamp")
    kind, _, name = _regarding(event)
    return Occurrence(
        _time(at),
        int(series.get("count") or event.get("deprecatedCount") or 1),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        str(event.get("note") or ""),
        f"{kind} {name}",
    )


def _regarding(event: JsonObject) -> tuple[str, str, str]:
    about = event.get("regarding") or {}
    return str(about.get("kind", "")), str(about.get("namespace", "")), str(about.get("name", ""))


def _time(text: object) -> datetime:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
