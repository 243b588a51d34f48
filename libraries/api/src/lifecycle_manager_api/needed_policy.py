"""The ModulePolicy that a module needs for its objects. Pure functions."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.admission_reach import sees_secrets
from lifecycle_manager_api.module_policy import (
    DENIED,
    ClusterResource,
    KindRule,
    ModulePolicySpec,
    NamespacedResources,
    PodSecurityLevel,
)
from lifecycle_manager_api.network_access import ANY
from lifecycle_manager_api.policy_checks import (
    ModuleRules,
    cluster_scoped_object,
    foreign_pods,
    names_kind,
    node_volume,
    place_of,
    unnamed_kind,
    unsafe_pod,
)
from lifecycle_manager_api.policy_objects import (
    CLUSTER_SCOPED,
    Content,
    Kind,
    Place,
    WrittenObject,
    account_of_token,
    accounts_in,
    addresses_of,
    aggregated_roles,
    hosts_of,
    is_named_after,
    scopes_in,
    secrets_of,
    selectors_of,
)


def needed_policy(objects: Iterable[WrittenObject], module: str, *, default_namespace: str) -> ModulePolicySpec:
    """Return the policy that a module needs for its objects, and no more than that."""
    listed = tuple(objects)
    known = {**scopes_in(listed), **dict.fromkeys(CLUSTER_SCOPED, False)}
    placed = [(each, place_of(each, ModuleRules(module), known, default_namespace)) for each in listed]
    namespaced = [place for _, place in placed if place.namespace]
    namespaces = sorted({each.namespace for each in namespaced} | {module})
    wide = ModuleRules(module, ModulePolicySpec(namespaces=tuple(namespaces)))
    cluster: dict[Kind, list[str]] = {}
    for _, place in placed:
        if any(cluster_scoped_object(place, wide)):
            cluster.setdefault((place.group, place.kind), []).append(place.name)
    places = frozenset(place for _, place in placed)
    contents = [Content.of(place, each.document, places) for each, place in placed]
    for each in contents:
        for role in aggregated_roles(each):
            cluster.setdefault((each.place.group, each.place.kind), []).append(role)
    outside = [each for each in contents if each.place.namespace != module]
    accounts = {it for each in outside for it in accounts_in(each) if not each.has_own("ServiceAccount", it)}
    tokens = {it for each in contents if (it := account_of_token(each)) is not None}
    own_kinds = frozenset(scopes_in(listed))
    is_listed = any(
        each.namespace == names.SKR_NAMESPACE or any(unnamed_kind(each, ModuleRules(module), own_kinds))
        for each in namespaced
    )
    denied = tuple(each for each in DENIED if not any(names_kind(each, place) for place in namespaced))
    default = set(namespaces) <= {module, names.SKR_NAMESPACE}
    return ModulePolicySpec(
        namespaces=() if default else tuple(namespaces),
        cluster_resources=tuple(
            ClusterResource(group=group, kind=kind, names=tuple(dict.fromkeys(found)))
            for (group, kind), found in sorted(cluster.items())
        ),
        namespaced_resources=NamespacedResources(
            allow=tuple(_kind_rules(namespaced, module)) if is_listed else (),
            deny=DENIED if denied == DENIED else denied,
        ),
        pod_security=_strictest_level(contents, module),
        service_accounts=tuple(sorted(accounts | tokens)),
        secrets=tuple(sorted(_secrets(contents, module))),
        hosts=tuple(sorted({host for each in contents for host in hosts_of(each, module)})),
        addresses=tuple(sorted({address for each in contents for address in addresses_of(each)})),
        pod_labels=tuple(sorted(_pod_labels(contents, module))),
    )


def _kind_rules(places: Iterable[Place], module: str) -> Iterator[KindRule]:
    """Yield a rule for each kind, with names where an object in the namespace that modules share has another's name."""
    by_kind: dict[Kind, list[Place]] = {}
    for each in places:
        by_kind.setdefault((each.group, each.kind), []).append(each)
    for (group, kind), found in sorted(by_kind.items()):
        own = all(each.namespace != names.SKR_NAMESPACE or is_named_after(module, each.name) for each in found)
        yield KindRule(group=group, kind=kind, names=() if own else tuple(sorted({each.name for each in found})))


def _secrets(contents: Iterable[Content], module: str) -> set[str]:
    """Return the Secrets to list: each by its name, and * where a webhook sees all."""
    found: set[str] = set()
    for each in contents:
        if sees_secrets(each.place.group, each.place.kind, each.document, module):
            found.add(ANY)
        outside = (it for it in secrets_of(each) if it.namespace != module)
        found |= {it.name for it in outside if not each.has_own("Secret", it.name, it.namespace)}
    return found


def _pod_labels(contents: Iterable[Content], module: str) -> set[str]:
    found: set[str] = set()
    for each in contents:
        if any(foreign_pods(each, ModuleRules(module))):
            for labels in selectors_of(each, module):
                found |= labels or {ANY}
    return found


def _strictest_level(contents: Collection[Content], module: str) -> PodSecurityLevel:
    levels: tuple[PodSecurityLevel, ...] = ("restricted", "baseline")
    for level in levels:
        rules = ModuleRules(module, msgspec.structs.replace(ModulePolicySpec(), pod_security=level))
        if not any(any(unsafe_pod(each, rules)) or any(node_volume(each, rules)) for each in contents):
            return level
    return "privileged"
