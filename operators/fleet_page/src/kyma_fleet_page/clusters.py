"""A cluster as the page shows it, as far as its user may list it: from caches, by the functions of `klm explain`."""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace as with_fields

from kube_runtime import Client, Forbidden, Informer, JsonObject, ObjectKey, Resource, dump_yaml
from kube_runtime.event_recorder import EVENTS
from kyma_fleet.comparison import ComparedObject, compare, wanted_sets
from kyma_fleet.explanation.chain import chains_not_ready, explain_all
from kyma_fleet.explanation.facts import Facts, Occurrence
from kyma_fleet.explanation.moments import Moment, last_change, moments
from kyma_fleet.explanation.reading import MAX_SELECTED, read_documents, read_events
from kyma_fleet.explanation.tree import Node, tree_of
from kyma_fleet.problems import SECRETS as NEEDS_SECRETS
from kyma_fleet.problems import Problem
from kyma_fleet_page.access import ALL_NAMESPACES, MayList
from lifecycle_manager.contract.fleet import GOOD, WORST_FIRST
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
    DatedReleaseMeta,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaModuleStatus,
    Manifest,
    ModuleConfig,
    ModuleRollout,
    SyncResource,
    names,
)

MAX_EVENTS, MAX_MOMENTS = 50, 40
MAX_OBJECTS, MAX_YAML = 100, 64 * 1024
CATALOG: tuple[Resource[Any], ...] = (MODULE_TEMPLATES, DATED_RELEASE_METAS)
PARTS: tuple[Resource[Any], ...] = (MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES)
COMPARING_SECONDS = 60
MAX_DIFFERENCES, MAX_LINES = 100, 500
NEEDED_TO_COMPARE: tuple[tuple[Resource[Any], str], ...] = (
    (SECRETS, names.KCP_NAMESPACE),
    (MANIFESTS, names.KCP_NAMESPACE),
    (SYNC_RESOURCES, ALL_NAMESPACES),
)
"""What a user has to be able to list: the difference shows objects of the cluster, and those that are wanted there."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a cluster is as it is.

    `commands` are what to do next, `hidden` the kinds that the user may not list, `since` when the last condition of
    each module changed.
    """

    tree: Node
    commands: Sequence[str] = ()
    hidden: Sequence[str] = ()
    since: Mapping[str, datetime] = field(default_factory=dict)


_Part = TypeVar("_Part", Manifest, ModuleConfig, SyncResource)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What belongs to a Kyma; `hidden` are the kinds of which some are left out."""

    manifests: tuple[Manifest, ...] = ()
    configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    hidden: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Manifest | ModuleConfig | SyncResource]:
        yield from self.manifests
        yield from self.configs
        yield from self.sync_resources


@dataclass(eq=False, kw_only=True)
class Clusters:
    """What the pages show, from caches; Events, writes, YAML and differences are read on request.

    What belongs to a Kyma is shown as far as the page's user may list it.

    - `reading`: bounds how many pages read from the API server at once
    - `sync_namespace`: that of objects of modules that name none
    """

    kcp: Client
    offers: Offers
    schedule: Schedule
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    releases: Informer[DatedReleaseMeta]
    rollouts: Informer[ModuleRollout]
    policies: Policies
    reading: asyncio.Semaphore
    sync_namespace: str

    def kyma(self, name: str) -> Kyma | None:
        """Return a Kyma."""
        return self.kymas.get(ObjectKey(names.KCP_NAMESPACE, name))

    async def explain(self, kyma: Kyma, may_list: MayList) -> Explanation:
        """Return why a cluster is as it is, and what to do next. Raises KubeError.

        Decided outside of the event loop, from one moment.
        """
        parts = await self._visible_parts(kyma.metadata.name, may_list)
        hidden_catalog = [each.kind for each in CATALOG if not await may_list(each, names.KCP_NAMESPACE)]
        timing = self.schedule.timing()
        facts = Facts(
            timing.now,
            kyma,
            self.offers.current(),
            timing,
            parts.manifests,
            parts.configs,
            parts.sync_resources,
            may_resolve=not hidden_catalog,
        )
        return await asyncio.to_thread(explanation_of, facts, (*parts.hidden, *hidden_catalog))

    def revision(self, name: str) -> Hashable:
        """Return another value whenever the cluster's page would look different."""
        kyma = self.kyma(name)
        things = (kyma, *self._parts(name)) if kyma is not None else ()
        return tuple(each.metadata.resource_version for each in things)

    async def events(self, name: str, may_list: MayList) -> Sequence[Occurrence]:
        """Return Events, the newest first: of a Kyma, and of its parts that are not ready. Raises KubeError."""
        kyma = self.kyma(name)
        if kyma is None:
            return ()
        if not await may_list(EVENTS, names.KCP_NAMESPACE):
            raise Forbidden(403, "Forbidden", f"this user may not list {EVENTS.plural} in {names.KCP_NAMESPACE}", {})
        parts = [each for each in await self._visible_parts(name, may_list) if each.status.state not in GOOD]
        own = [each for each in parts if each.metadata.namespace == names.KCP_NAMESPACE]  # elsewhere there is no right
        async with self.reading:
            found = await read_events(self.kcp, [kyma, *own[: MAX_SELECTED - 1]])
        return found[-MAX_EVENTS:][::-1]

    async def last_change(self, name: str, may_list: MayList) -> Sequence[Moment]:
        """Return what was done in the last change of a cluster, as its objects record it. Raises KubeError."""
        async with self.reading:
            documents = await read_documents(self.kcp, name)
        shown = [each for each in documents if await _is_visible(each, may_list)]
        return last_change(moments(shown, ()))[-MAX_MOMENTS:]

    async def objects(self, name: str, may_list: MayList) -> Sequence[tuple[str, str]]:
        """Return the objects of a cluster in KCP as title and YAML, without managedFields. Raises KubeError."""
        async with self.reading:
            documents = await read_documents(self.kcp, name)
        shown = [each for each in documents if await _is_visible(each, may_list)]
        titled = [(f"{each['kind']} {each['metadata']['name']}", each) for each in shown[:MAX_OBJECTS]]
        return await asyncio.to_thread(lambda: [(title, _yaml(each)) for title, each in titled])

    async def difference(self, kyma: str, module: str, may_list: MayList) -> Sequence[ComparedObject]:
        """Return what a reconcile would change of a module in a cluster, by a dry run there, as `klm diff` does.

        For users who could read its access Secret. Raises Problem, KubeError.
        """
        for resource, namespace in NEEDED_TO_COMPARE:
            if not await may_list(resource, namespace):
                raise Problem(f"you may not list {resource.plural}; {NEEDS_SECRETS}")
        try:
            async with self.reading, asyncio.timeout(COMPARING_SECONDS):
                wanted = await wanted_sets(self.kcp, kyma, module, self.sync_namespace)
                found = await compare(self.kcp, kyma, wanted, self.sync_namespace)
        except TimeoutError:
            raise Problem(f"the cluster of Kyma {kyma} took more than {COMPARING_SECONDS} s to compare") from None
        except OSError as error:  # no space for the layer of a module
            raise Problem(f"module {module} of Kyma {kyma} cannot be read: {error}; use klm diff") from None
        return [with_fields(each, lines=each.lines[:MAX_LINES]) for each in found.changes[:MAX_DIFFERENCES]]

    def _parts(self, name: str) -> _Parts:
        return _Parts(
            tuple(self.manifests.by_index(MANIFESTS_BY_KYMA, name)),
            tuple(filter(self.policies.is_in_place, self.configs.by_index(MODULE_CONFIGS_BY_KYMA, name))),
            tuple(filter(self.policies.is_in_place, self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, name))),
        )

    async def _visible_parts(self, name: str, may_list: MayList) -> _Parts:
        hidden: list[str] = []

        async def visible(parts: tuple[_Part, ...], resource: Resource[Any]) -> tuple[_Part, ...]:
            shown = tuple([each for each in parts if await _may_see(resource, each.metadata.namespace, may_list)])
            if len(shown) < len(parts):
                hidden.append(resource.kind)
            return shown

        every = self._parts(name)
        return _Parts(
            await visible(every.manifests, MANIFESTS),
            await visible(every.configs, MODULE_CONFIGS),
            await visible(every.sync_resources, SYNC_RESOURCES),
            tuple(hidden),
        )


async def _is_visible(document: JsonObject, may_list: MayList) -> bool:
    resource = next((each for each in (KYMAS, *PARTS) if each.kind == document["kind"]), None)
    return resource is not None and await _may_see(resource, document["metadata"].get("namespace", ""), may_list)


async def _may_see(resource: Resource[Any], namespace: str, may_list: MayList) -> bool:
    return await may_list(resource, ALL_NAMESPACES) or await may_list(resource, namespace)


def _yaml(document: JsonObject) -> str:
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    text = dump_yaml({**document, "metadata": metadata})
    return (
        text if len(text) <= MAX_YAML else f"{text[:MAX_YAML]}\n# {len(text) - MAX_YAML} more characters are left out"
    )


def modules_of(kyma: Kyma) -> Sequence[KymaModuleStatus]:
    """Return the modules of a Kyma, those that are not ready first."""
    return sorted(kyma.status.modules, key=lambda each: (WORST_FIRST.index(each.state), each.name))


def conditions_of(kyma: Kyma) -> Sequence[Condition]:
    """Return the conditions of a Kyma, those that are not True first."""
    return sorted(kyma.status.conditions, key=lambda each: (each.status == "True", each.type))


def explanation_of(facts: Facts, hidden: tuple[str, ...] = ()) -> Explanation:
    """Return what is shown of these facts."""
    chains = explain_all(facts)
    commands = dict.fromkeys(each.next_command for each in chains_not_ready(chains) if each.next_command)
    return Explanation(tree_of(facts, chains), tuple(commands), hidden, _since(facts))


def _since(facts: Facts) -> Mapping[str, datetime]:
    found: dict[str, datetime] = {}
    parts: Iterable[tuple[str, Sequence[Condition]]] = (
        *((module_of_manifest(each), each.status.conditions) for each in facts.manifests),
        *((each.spec.module, each.status.conditions) for each in facts.configs),
        *((each.spec.module, each.status.conditions) for each in facts.sync_resources),
    )
    for module, conditions in parts:
        times = [each.last_transition_time for each in conditions if each.last_transition_time is not None]
        if times:
            found[module] = max(*times, found.get(module, times[0]))
    return found
