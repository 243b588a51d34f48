"""What the fleet page shows of made-up clusters, explained by the functions of `klm explain`."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, SimpleNamespace
from typing import Any

from kube_runtime import InventoryEntry, Resource
from kyma_fleet.comparison import ComparedObject
from kyma_fleet.explanation.facts import Facts, Occurrence
from kyma_fleet.explanation.moments import Moment
from kyma_fleet_page.access import AccessDecision, MayList
from kyma_fleet_page.clusters import Clusters, Explanation, explanation_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, ModuleReleaseMeta, ModuleRollout, SyncResource

EVENT_TIME = datetime(2026, 11, 22, 10, tzinfo=UTC)


class AnyRight:
    """Answers of an API server that lets everybody list everything."""

    async def of(self, _: str) -> AccessDecision:
        return AccessDecision.ALLOWED

    async def user_of(self, token: str) -> str:
        return token.partition("-of-")[2] or token

    async def may_list(self, _: str, __: Resource[Any], ___: str) -> bool:
        return True


@dataclass(frozen=True)
class Parts:
    manifests: tuple[Manifest, ...] = ()
    configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()


class MadeUp(Clusters):
    """Clusters that nobody has to serve. A test gives what changes as functions."""

    def __init__(
        self,
        kymas: Mapping[str, Kyma],
        parts: Mapping[str, Parts] = MappingProxyType({}),
        releases: Callable[[], Iterable[ModuleReleaseMeta]] = tuple,
        *,
        note: str = "module api-gateway: no nodes",
        offer: Callable[[], Offer] = lambda: Offer.of((), ()),
        rollouts: Callable[[], Iterable[ModuleRollout]] = tuple,
    ) -> None:
        listed: dict[str, Any] = {"kymas": kymas.values, "releases": releases, "rollouts": rollouts}
        vars(self).update({kind: SimpleNamespace(list=each) for kind, each in listed.items()})
        self.made_up, self.parts, self.note, self.offer = kymas, parts, note, offer

    def kyma(self, name: str) -> Kyma | None:
        return self.made_up.get(name)

    def revision(self, name: str) -> Hashable:
        return self.made_up[name].metadata.resource_version if name in self.made_up else None

    async def explain(self, kyma: Kyma, may_list: MayList) -> Explanation:
        parts, now = self.parts.get(kyma.metadata.name, Parts()), datetime.now(UTC)
        timing = Timing(now, {}, timedelta(0))
        of_kyma: tuple[Any, ...] = (parts.manifests, parts.configs, parts.sync_resources)
        return explanation_of(Facts(now, kyma, self.offer(), timing, *of_kyma))

    async def events(self, name: str, may_list: MayList) -> Sequence[Occurrence]:
        return (Occurrence(EVENT_TIME, 1, "Warning", "ModuleError", f"Kyma {name}", self.note),)

    async def objects(self, name: str, may_list: MayList) -> Sequence[tuple[str, str]]:
        return ((f"Kyma {name}", f"kind: Kyma\nmetadata:\n  name: {name}\nnote: {self.note}\n"),)

    async def difference(self, kyma: str, module: str, may_list: MayList) -> Sequence[ComparedObject]:
        lines = (f"@@ -3,5 +3,5 @@ {self.note}", " data:", f"-  colour: {self.note}", "+  colour: blue")
        return (ComparedObject(InventoryEntry("", "v1", "ConfigMap", "kyma-system", module), "change", lines, None),)

    async def last_change(self, name: str, may_list: MayList) -> Sequence[Moment]:
        return (Moment(EVENT_TIME, "lifecycle-manager", f"wrote the content of ModuleConfig {name}: {self.note}"),)
