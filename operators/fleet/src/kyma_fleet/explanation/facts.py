"""What an explanation stands on: one Kyma with all that belongs to it in the control plane, and its last Events."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kube_runtime import JsonObject
from kyma_fleet.times import time_in
from lifecycle_manager.kyma.resolution import Resolution, resolve
from lifecycle_manager.kyma.wanted import installed_in
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import Kyma, KymaModule, KymaSpec, Manifest, ModuleConfig, State, SyncResource


class Occurrence(msgspec.Struct, frozen=True):
    """One Kubernetes Event: the last time, how often, and about which object."""

    at: datetime
    count: int
    kind: str = msgspec.field(name="type")
    reason: str
    note: str
    about: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that an explanation depends on. `may_resolve`: whoever asks may read what modules stand for."""

    now: datetime
    kyma: Kyma
    offer: Offer
    timing: Timing
    manifests: tuple[Manifest, ...] = ()
    configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    events: tuple[Occurrence, ...] = ()
    may_resolve: bool = True

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
        if not self.may_resolve:
            return {}
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


def occurrence_of(event: JsonObject) -> Occurrence:
    """Return what matters of an Event."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("eventTime"), event.get("deprecatedLastTimestamp"))
    at = next((each for each in times if each), None) or event["metadata"].get("creationTimestamp")
    kind, _, name = regarding(event)
    return Occurrence(
        time_in(at) or datetime.fromtimestamp(0, UTC),
        int(series.get("count") or event.get("deprecatedCount") or 1),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        str(event.get("note") or ""),
        f"{kind} {name}",
    )


def regarding(event: JsonObject) -> tuple[str, str, str]:
    """Return kind, namespace and name of the object that an Event is about."""
    about = event.get("regarding") or {}
    return str(about.get("kind", "")), str(about.get("namespace", "")), str(about.get("name", ""))
