"""What the rules of mandatory modules are decided on. All of it comes from informers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from kube_runtime import Change, EventRecorder, Informer, ObjectKey
from kube_runtime.informer import Index
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.releases import Rollouts
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.skr.brake import RECOUNT_SECONDS
from lifecycle_manager.skr.removals import continued_removal, is_removal_held, waiting_since
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate, names

Release = ModuleTemplate | ModuleReleaseMeta


class ReleaseKey(NamedTuple):
    """A ModuleTemplate or ModuleReleaseMeta in KCP."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


MANIFESTS_BY_MANDATORY_MODULE: Index[Manifest] = Index(
    "mandatory", lambda it: (module_of_manifest(it),) if is_mandatory_manifest(it) else ()
)
"""Manifests of mandatory modules by their module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSnapshot:
    """A Kyma, the offer, and the Manifests of the Kyma.

    `held` are its modules that are not mandatory any more and whose removal waits for an operator; of those for which
    one has just continued it, `removed_since` says by the Manifest when they ceased to be mandatory. `rollouts` decide
    about their modules, `changed_templates` are those whose ModuleTemplate changed since the latest rollout.
    """

    kyma: Kyma
    offer: Offer
    manifests: tuple[Manifest, ...]
    held: frozenset[str] = frozenset()
    removed_since: Mapping[str, datetime] = field(default_factory=dict)
    rollouts: Rollouts = field(default_factory=dict)
    changed_templates: frozenset[tuple[str, str]] = frozenset()

    def marks(self, manifest: str) -> dict[str, str]:
        """Return the annotations that say when the module of a Manifest ceased to be mandatory."""
        since = self.removed_since.get(manifest)
        return {} if since is None else {names.REMOVED_SINCE: since.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetirementSnapshot:
    """A ModuleTemplate or ModuleReleaseMeta, the offer, and all mandatory Manifests of its module."""

    release: Release
    offer: Offer
    manifests: tuple[Manifest, ...]


class _Removal(NamedTuple):
    """When the clusters of a removal were counted, when it was seen first, when it began, and since when it waits."""

    module: str
    counted_at: float
    seen_at: datetime
    changed_at: datetime
    since: datetime | None


@dataclass(frozen=True, eq=False)
class MandatoryReader:
    """Reads what is known of a Kyma, and of a release: a ModuleTemplate or ModuleReleaseMeta."""

    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    manifests: Informer[Manifest]
    offers: Offers
    schedule: Schedule
    _removed: "dict[str, _Removal]" = field(default_factory=dict, init=False)

    def installation(self, kyma: Kyma) -> InstallationSnapshot:
        offer = self.offers.current()
        manifests = self.manifests.by_index(MANIFESTS_BY_KYMA, kyma.metadata.name)
        wanted = offer.required
        for module in wanted & self._removed.keys():
            del self._removed[module]
        present = (each for each in manifests if is_mandatory_manifest(each) and not each.metadata.being_deleted)
        modules = {each.metadata.name: module_of_manifest(each) for each in present}
        removed = {name: self._removal(module) for name, module in modules.items() if module not in wanted}
        held = frozenset(each.module for each in removed.values() if is_removal_held(each.since, kyma.metadata))
        now = self.schedule.clock.now()
        continued = {name: continued_removal(each.changed_at, kyma.metadata, now) for name, each in removed.items()}
        return InstallationSnapshot(
            kyma=kyma,
            offer=offer,
            manifests=manifests,
            held=held,
            removed_since={name: since for name, since in continued.items() if since is not None},
            rollouts=self.schedule.in_force(),
            changed_templates=self.schedule.changed_templates(),
        )

    def _removal(self, module: str) -> "_Removal":
        """Return when a module ceased to be mandatory, and since when its removal waits.

        KCP records when a release was deleted, or written last; this process, when it saw first that a template is not
        mandatory any more.
        """
        clock = self.schedule.clock
        now, known = clock.monotonic(), self._removed.get(module)
        if known is None or now - known.counted_at >= RECOUNT_SECONDS:
            seen_at = known.seen_at if known is not None else clock.now()
            releases = [each for each in self.list() if module_of_release(each) == module]
            ends = [each.metadata.deletion_timestamp for each in releases if each.metadata.being_deleted]
            written = [each.metadata.written_at for each in releases if isinstance(each, DatedReleaseMeta)]
            changed_at = max(filter(None, ends or written), default=seen_at)
            present = self.manifests.by_index(MANIFESTS_BY_MANDATORY_MODULE, module)
            keys = (ObjectKey(each.metadata.namespace, kyma_of_manifest(each)) for each in present)
            kymas = filter(None, map(self.kymas.get, keys))
            # A release is kept until no cluster has its module: where there is none, a restore has not brought it yet.
            limit = self.schedule.max_changed()
            since = waiting_since(module, changed_at, kymas, limit) if releases else changed_at
            known = self._removed[module] = _Removal(module, now, seen_at, changed_at, since)
        return known

    def retirement(self, release: Release) -> RetirementSnapshot:
        manifests = self.manifests.by_index(MANIFESTS_BY_MANDATORY_MODULE, module_of_release(release))
        return RetirementSnapshot(release=release, offer=self.offers.current(), manifests=manifests)

    def report(self, events: EventRecorder, release: Release, reason: str, message: str) -> None:
        """Record a Warning Event of a release."""
        events.record(self.informer_of(release.KIND).resource, release, reason, message, type="Warning")

    def informer_of(self, kind: str) -> Informer[Any]:
        return self.templates if kind == ModuleTemplate.KIND else self.releases

    def get(self, key: ReleaseKey) -> Release | None:
        found: Release | None = self.informer_of(key.kind).get(ObjectKey(key.namespace, key.name))
        return found

    def list(self) -> tuple[Release, ...]:
        return (*self.templates.cache.list(), *self.releases.cache.list())

    def keys(self) -> Iterable[ReleaseKey]:
        return map(key_of_release, self.list())

    def of_change(self, change: Change[DatedReleaseMeta]) -> Iterable[ReleaseKey]:
        """Return the release, and the templates of its module: a mandatory release decides which one is held."""
        release = versions(change)[0]
        yield key_of_release(release)
        for template in self.templates.cache.list():
            if module_of(template) == release.spec.module_name:
                yield key_of_release(template)

    def waiting_for(self, change: Change[Manifest]) -> Iterable[ReleaseKey]:
        modules = {module_of_manifest(each) for each in versions(change)}
        leaving = (each for each in self.list() if each.metadata.being_deleted)
        return [key_of_release(each) for each in leaving if module_of_release(each) in modules]


def key_of_release(release: Release) -> ReleaseKey:
    return ReleaseKey(release.KIND, release.metadata.namespace, release.metadata.name)


def module_of_release(release: Release) -> str:
    return release.spec.module_name if isinstance(release, ModuleReleaseMeta) else module_of(release)
