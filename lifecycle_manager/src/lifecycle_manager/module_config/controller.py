"""Ties observe, plan and act to the key of one module in one Kyma."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from kube_runtime import Client, Informer, KubeError, ObjectKey, Result
from lifecycle_manager.kyma_conditions import interval_for
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind, ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_config.act import act
from lifecycle_manager.module_config.observe import (
    JsonObject,
    Reading,
    Snapshot,
    Undecided,
    Wanted,
    decide,
    read_all,
    read_some,
)
from lifecycle_manager.module_config.plan import plan
from lifecycle_manager.skr import Announcement, Announcements, Connections, SkrAccessError, failure_of
from lifecycle_manager.skr.announcement import Seen
from lifecycle_manager.telemetry import ChangeLatency
from lifecycle_manager_api import Kyma, ModuleConfig, ModuleTemplate


class ModuleKey(NamedTuple):
    """One module of one Kyma in KCP."""

    namespace: str
    kyma: str
    module: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kyma}/{self.module}"


def keys_of(kyma: Kyma) -> tuple[ModuleKey, ...]:
    """Return the keys of the modules that a Kyma's status names."""
    namespace, name = kyma.metadata.namespace or "", kyma.metadata.name
    return tuple(ModuleKey(namespace, name, status.name) for status in kyma.status.modules)


@dataclass(eq=False)
class ModuleConfigReconciler:
    """Keeps the ModuleConfigs of one module equal to its Module CRs in the SKR.

    A key woken by an announcement reads only the objects that were announced. One woken for another cause, and each
    key once an interval, reads them all. `module_configs` needs the index `module` (see `module_index`).
    """

    kcp: Client
    connections: Connections
    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    module_configs: Informer[ModuleConfig]
    kinds: ModuleKinds
    latency: ChangeLatency
    interval_seconds: float = 30.0
    clock: Callable[[], float] = time.monotonic
    announcements: Announcements[ModuleKey] = field(default_factory=Announcements)
    _full_read_due: dict[ModuleKey, float] = field(default_factory=dict, init=False)

    def wake(self, key: ModuleKey) -> None:
        """Have the next reconcile of this key read every Module CR, not only announced ones."""
        self._full_read_due.pop(key, None)

    def keys_for_kind(self, kyma: Kyma, group: str, kind: str) -> Iterable[ModuleKey]:
        """Return the modules of a Kyma that are configured by this kind."""
        for key in keys_of(kyma):
            template = self._template(kyma, key.module)
            known = self.kinds.known(template) if template is not None else ()
            if any((each.group, each.kind) == (group, kind) for each in known):
                yield key

    async def reconcile(self, key: ModuleKey) -> Result:
        """Bring the ModuleConfigs of one module up to date.

        Raises KubeError, SkrAccessError or TemplateUnreadable after saying so.
        """
        kyma = self.kymas.cache.get(ObjectKey(key.namespace, key.kyma))
        match decide(kyma, key.module, self._template(kyma, key.module)):
            case Undecided():
                return Result()
            case None:
                return await self._retire(key)
            case Wanted(template):
                try:
                    kinds = await self.kinds.of(template)
                except TemplateUnreadable as error:
                    await self._carry_out(key, None, unreadable=("TemplateUnreadable", str(error)))
                    raise
                return await self._follow(key, kinds)

    async def _follow(self, key: ModuleKey, kinds: tuple[ModuleCrKind, ...]) -> Result:
        pending = self.announcements.of(key)
        started = self.clock()
        complete = not pending or started >= self._full_read_due.get(key, 0.0)
        try:
            reading = await self._read(key, kinds, pending, complete=complete)
        except (KubeError, SkrAccessError) as error:
            failure = failure_of(error)
            await self._carry_out(key, None, unreadable=(failure.reason, failure.message))
            raise
        await self._carry_out(key, reading)
        again = self.announcements.settle(
            key, {announcement: _seen(reading.found.get(announcement.object)) for announcement in pending}
        )
        if complete:
            kyma = self.kymas.cache.get(ObjectKey(key.namespace, key.kyma))
            self._full_read_due[key] = started + interval_for(kyma, self.interval_seconds)
        next_full = max(0.0, self._full_read_due.get(key, 0.0) - self.clock())
        return Result(requeue_after=next_full if again is None else min(again, next_full))

    async def _retire(self, key: ModuleKey) -> Result:
        self.announcements.forget(key)
        self._full_read_due.pop(key, None)
        await self._carry_out(key, None)
        return Result()

    async def _read(
        self, key: ModuleKey, kinds: tuple[ModuleCrKind, ...], pending: tuple[Announcement, ...], *, complete: bool
    ) -> Reading:
        async with self.connections.to(key.kyma) as skr:
            if complete:
                return await read_all(skr, kinds)
            return await read_some(skr, kinds, [announcement.object for announcement in pending])

    async def _carry_out(
        self,
        key: ModuleKey,
        reading: Reading | None,
        *,
        unreadable: tuple[str, str] | None = None,
    ) -> None:
        snapshot = Snapshot(
            kyma=key.kyma,
            module=key.module,
            namespace=key.namespace,
            existing=tuple(self.module_configs.cache.by_index("module", f"{key.kyma}/{key.module}")),
            reading=reading,
            unreadable=unreadable,
        )
        # Of what was announced while the read was under way, too: it may well have shown it.
        traces = {announcement.object: announcement.trace for announcement in self.announcements.of(key)}
        now = datetime.now(UTC).replace(microsecond=0)
        await act(self.kcp, snapshot, plan(snapshot), traces, self.latency, now)

    def _template(self, kyma: Kyma | None, module: str) -> ModuleTemplate | None:
        statuses = kyma.status.modules if kyma is not None else ()
        reference = next((status.template for status in statuses if status.name == module), None)
        if reference is None:
            return None
        return self.templates.cache.get(ObjectKey(reference.metadata.namespace or "", reference.metadata.name))


def _seen(module_cr: JsonObject | None) -> Seen:
    if module_cr is None:
        return Seen()
    metadata = module_cr["metadata"]
    return Seen(metadata["uid"], metadata["resourceVersion"], "deletionTimestamp" in metadata)


def module_index(config: ModuleConfig) -> Iterable[str]:
    """Index a ModuleConfig by `kyma/module`."""
    yield f"{config.spec.kyma}/{config.spec.module}"
