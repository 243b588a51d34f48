"""Which objects violate the ModulePolicy of their module. Pure functions.

Each check is named by what it finds and returns the rule of the policy with a message. Checks of an object's place need
no more than its kind, namespace and name, so they also decide what may be deleted; checks of its content need the whole
of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from lifecycle_manager_api import names
from lifecycle_manager_api.admission_reach import sees_secrets
from lifecycle_manager_api.conditions import shortened
from lifecycle_manager_api.embedded_pods import texts_of_pods
from lifecycle_manager_api.known_kinds import HARMLESS
from lifecycle_manager_api.module_policy import (
    ClusterResource,
    KindRule,
    ModulePolicySpec,
)
from lifecycle_manager_api.network_access import ANY
from lifecycle_manager_api.pod_marks import LEVELS, enforced_levels, marks_in
from lifecycle_manager_api.pod_security import mapping, mappings, violated_rules
from lifecycle_manager_api.policy_objects import (
    CLUSTER_SCOPED,
    WATCHER,
    Content,
    Kind,
    Place,
    Scopes,
    WrittenObject,
    account_of_token,
    accounts_in,
    addresses_of,
    aggregated_roles,
    hosts_of,
    is_named_after,
    names_of_the_watcher,
    scopes_in,
    secrets_of,
    selectors_of,
)

DEFAULTS = ModulePolicySpec()
"""The policy of a module without a ModulePolicy."""
SYSTEM_NAMESPACES = frozenset({names.SKR_NAMESPACE, "kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that an object violates. `index` is that of its document, None for an object that is only deleted."""

    index: int | None
    thing: str
    rule: str
    message: str

    def __str__(self) -> str:
        """Name document, object and rule."""
        document = f"document {self.index}: " if self.index is not None else ""
        return f"{document}{self.thing}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class ModuleRules:
    """The policy of a module; without a ModulePolicy its defaults."""

    module: str
    spec: ModulePolicySpec = DEFAULTS


Found = Iterator[tuple[str, str]]
"""Rules of the policy, each with a message."""


def policy_violations(
    objects: Iterable[WrittenObject], rules: ModuleRules, scopes: Scopes | None = None, *, default_namespace: str
) -> Iterator[Violation]:
    """Yield what a set of objects violates.

    `scopes` are those that an API server has stated. Without it the scope is known for the kinds of Kubernetes, and for
    those whose CRD is in the set. `default_namespace` is that of objects that name none.
    """
    listed = tuple(objects)
    known = {**scopes_in(listed), **(scopes or {}), **dict.fromkeys(CLUSTER_SCOPED, False)}
    placed = [(each, place_of(each, rules, known, default_namespace)) for each in listed]
    places, own_kinds = frozenset(place for _, place in placed), frozenset(scopes_in(listed))
    for each, place in placed:
        content = Content.of(place, each.document, places)
        of_place = (*_placement(place, rules), *unnamed_kind(place, rules, own_kinds))
        for rule, message in (*of_place, *(it for check in CONTENT for it in check(content, rules))):
            yield Violation(each.index, str(place), rule, message)


def misplaced(places: Iterable[Place], rules: ModuleRules) -> Iterator[tuple[Place, Violation]]:
    """Yield the objects that a module may not have by their kind, namespace and name."""
    for place in places:
        for rule, message in _placement(place, rules):
            yield place, Violation(None, str(place), rule, message)


def cluster_scoped_object(place: Place, rules: ModuleRules) -> Found:
    """Find cluster-scoped objects that the policy does not name."""
    if place.namespace or (place.group, place.kind, place.name) == ("", "Namespace", rules.module):
        return
    if not any(_names_cluster_resource(each, place) for each in rules.spec.cluster_resources):
        yield "spec.clusterResources", f"does not list {_kind(place)} with this name"


def foreign_namespace(place: Place, rules: ModuleRules) -> Found:
    """Find objects outside the module's namespaces."""
    allowed = rules.spec.namespaces or (rules.module, names.SKR_NAMESPACE)
    if place.namespace and not _matches_namespace(allowed, place.namespace):
        yield "spec.namespaces", f"the namespaces are {', '.join(allowed)}"


def unlisted_kind(place: Place, rules: ModuleRules) -> Found:
    """Find kinds that the policy does not list; in kyma-system each kind has to be listed."""
    allowed = rules.spec.namespaced_resources.allow
    if not place.namespace or any(_allows_kind(each, place, rules.module) for each in allowed):
        return
    if allowed or place.namespace == names.SKR_NAMESPACE:
        yield "spec.namespacedResources.allow", f"does not list {_kind(place)} with this name"


def unnamed_kind(place: Place, rules: ModuleRules, own_kinds: Collection[Kind] = ()) -> Found:
    """Find kinds that may do harm and that no policy names; those with a CRD among the same objects are the module's.

    What is deleted needs no name: a policy without any once allowed them.
    """
    listed = rules.spec.namespaced_resources.allow or place.namespace in ("", names.SKR_NAMESPACE)
    kind = (place.group, place.kind)
    if not (listed or kind in HARMLESS or kind in own_kinds):
        yield "spec.namespacedResources.allow", f"does not list {_kind(place)}, which is not known to be harmless"


def denied_kind(place: Place, rules: ModuleRules) -> Found:
    """Find kinds that the policy denies."""
    if place.namespace and any(names_kind(each, place) for each in rules.spec.namespaced_resources.deny):
        yield "spec.namespacedResources.deny", f"lists {_kind(place)}"


def foreign_token(content: Content, rules: ModuleRules) -> Found:
    """Find Secrets that Kubernetes would fill with the token of a ServiceAccount."""
    account = account_of_token(content)
    if account is not None and not _matches_name(rules.spec.service_accounts, account, content.place.namespace):
        yield "spec.serviceAccounts", f"it is a token of ServiceAccount {account!r}, which is not listed"


def foreign_service_account(content: Content, rules: ModuleRules) -> Found:
    """Find Pods that run as a ServiceAccount of somebody else, and other references to one."""
    place = content.place
    for account in sorted(accounts_in(content)) if place.namespace != rules.module else ():
        own = content.has_own("ServiceAccount", account)
        if not own and not _matches_name(rules.spec.service_accounts, account, place.namespace):
            yield "spec.serviceAccounts", f"its Pods run as ServiceAccount {account}, which is not listed"
            return


def foreign_secret(content: Content, rules: ModuleRules) -> Found:
    """Find references to Secrets of somebody else, and webhooks that see them."""
    for secret in sorted(secrets_of(content)):
        own = secret.namespace == rules.module or content.has_own("Secret", secret.name, secret.namespace)
        if not own and not _matches_name(rules.spec.secrets, secret.name, secret.namespace):
            yield "spec.secrets", f"it uses Secret {secret.name}, which is not listed"
    place = content.place
    if ANY not in rules.spec.secrets and sees_secrets(place.group, place.kind, content.document, rules.module):
        yield "spec.secrets", "it sees the Secrets of all namespaces, for which * has to be listed"


def unsafe_pod(content: Content, rules: ModuleRules) -> Found:
    """Find Pods that do not meet the policy's level of the Pod Security Standards."""
    level, place, found = rules.spec.pod_security, content.place, dict[str, None]()
    for pod in content.pods:
        found |= dict.fromkeys(f"{rule}: {message}" for rule, message in violated_rules(pod, level))
        if level == "baseline":  # not in the standard, which forbids it at `restricted` alone
            for each in mappings(pod.spec.get("volumes")):
                if each.get("gitRepo") is not None:
                    message = f"volume {each.get('name')} is a gitRepo, for which the node runs git as root"
                    found[f"Volume Types: {message}"] = None
    if level != "privileged":
        marks = (f"Labels and Annotations: {key} is {shortened(value)}" for key, value in marks_in(content.values))
        is_known = (place.group, place.kind) in HARMLESS or (place.group, place.kind) in CLUSTER_SCOPED
        texts = () if is_known else texts_of_pods(content.values)  # no known kind takes a Pod as a text
        found |= dict.fromkeys(marks)
        found |= dict.fromkeys(f"Text: {text} of a Pod, which is not checked; write fields instead" for text in texts)
    for enforced in enforced_levels(content.values):
        if LEVELS.index(enforced) > LEVELS.index(level):
            found[f"Namespace: its label has {enforced} enforced"] = None
    yield from ((f"spec.podSecurity {level}", message) for message in found)


def node_volume(content: Content, rules: ModuleRules) -> Found:
    """Find PersistentVolumes that are folders of a node: by a claim a Pod gets the same as by a hostPath."""
    place, level = content.place, rules.spec.pod_security
    is_folder = mapping(content.document.get("spec")).get("local") is not None
    if is_folder and (place.group, place.kind) == ("", "PersistentVolume") and level != "privileged":
        yield f"spec.podSecurity {level}", "HostPath Volumes: spec.local is a folder of a node"


def foreign_host(content: Content, rules: ModuleRules) -> Found:
    """Find objects that serve, route or name hosts of somebody else."""
    for host in sorted(hosts_of(content, rules.module)):
        if not _matches(rules.spec.hosts, host):
            yield "spec.hosts", f"it serves host {host}, which is not listed"


def foreign_address(content: Content, rules: ModuleRules) -> Found:
    """Find objects that lead traffic out of the cluster, or to Pods and nodes by their addresses."""
    for address in sorted(addresses_of(content)):
        if not _matches(rules.spec.addresses, address):
            yield "spec.addresses", f"it leads to {address}, which is not listed"


def foreign_pods(content: Content, rules: ModuleRules) -> Found:
    """Find objects that select Pods of somebody else, and webhooks that change other objects."""
    allowed = (f"{names.KYMA_MODULE_LABEL}={rules.module}", *rules.spec.pod_labels)
    for labels in dict.fromkeys(selectors_of(content, rules.module)) if ANY not in allowed else ():
        if not any(_matches(allowed, each) for each in labels):
            selected = " and ".join(sorted(labels)) or "everything"
            yield "spec.podLabels", f"it selects {selected}; no label of it is listed"


def added_rules(content: Content, rules: ModuleRules) -> Found:
    """Find ClusterRoles whose rules Kubernetes adds to those of another one."""
    for role in aggregated_roles(content):
        needed = Place(content.place.group, content.place.kind, "", role)
        if not any(_names_cluster_resource(each, needed) for each in rules.spec.cluster_resources):
            yield "spec.clusterResources", f"does not list ClusterRole {role}, as which its rules are granted"


def watcher_reference(content: Content, _: ModuleRules) -> Found:
    """Find what refers to objects of the Watcher; no policy allows that."""
    for name in sorted(names_of_the_watcher(content)):
        yield "protected", f"it refers to {name}, which belongs to the Lifecycle Manager"


PLACEMENT: tuple[Callable[[Place, ModuleRules], Found], ...] = (
    cluster_scoped_object,
    foreign_namespace,
    denied_kind,
    unlisted_kind,
)
CONTENT: tuple[Callable[[Content, ModuleRules], Found], ...] = (
    foreign_token,
    foreign_service_account,
    foreign_secret,
    unsafe_pod,
    node_volume,
    foreign_host,
    foreign_address,
    foreign_pods,
    added_rules,
    watcher_reference,
)


def _placement(place: Place, rules: ModuleRules) -> Found:
    for check in PLACEMENT:
        yield from check(place, rules)


def place_of(thing: WrittenObject, rules: ModuleRules, scopes: Scopes, default_namespace: str) -> Place:
    """Return the place of an object. An unknown kind without a namespace is what the policy lists it as."""
    group = thing.api_version.rpartition("/")[0]
    namespaced = scopes.get((group, thing.kind))
    cluster = Place(group, thing.kind, "", thing.name)
    if namespaced is None and not thing.namespace:
        namespaced = not any(_names_cluster_resource(each, cluster) for each in rules.spec.cluster_resources)
    if namespaced is False:
        return cluster
    return Place(group, thing.kind, thing.namespace or default_namespace, thing.name)


def names_kind(rule: KindRule, place: Place) -> bool:
    return (
        rule.group in ("*", place.group)
        and _matches((rule.kind,), place.kind)
        and (not rule.names or _matches(rule.names, place.name))
    )


def _allows_kind(rule: KindRule, place: Place, module: str) -> bool:
    """Tell whether a rule allows an object. In kyma-system, one without names is for the module's own."""
    if rule.names or place.namespace != names.SKR_NAMESPACE:
        return names_kind(rule, place)
    return names_kind(rule, place) and is_named_after(module, place.name)


def _names_cluster_resource(rule: ClusterResource, place: Place) -> bool:
    if rule.group not in ("*", place.group) or not _matches((rule.kind,), place.kind):
        return False
    is_namespace = (place.group, place.kind) == ("", "Namespace")
    return _matches_namespace(rule.names, place.name) if is_namespace else _matches(rule.names, place.name)


def _matches_namespace(patterns: Iterable[str], namespace: str) -> bool:
    """Tell whether a namespace is named; a pattern never matches those of the system."""
    return namespace in patterns if namespace in SYSTEM_NAMESPACES else _matches(patterns, namespace)


def _matches_name(patterns: Iterable[str], name: str, namespace: str) -> bool:
    """Tell whether a Secret or ServiceAccount is listed; nobody gets the Watcher's."""
    is_watchers = name == WATCHER or name.startswith(f"{WATCHER}-")
    return not (is_watchers and namespace == names.SKR_NAMESPACE) and _matches(patterns, name)


def _matches(patterns: Iterable[str], text: str) -> bool:
    return any(_fits(each, text) for each in patterns)


def _fits(pattern: str, text: str) -> bool:
    """Tell whether a text has the parts between the stars of a pattern, in their order and at its ends."""
    start, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    if not text.startswith(start):
        return False
    *inner, end = parts
    place = len(start)
    for part in inner:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(text) - len(end) >= place and text.endswith(end)


def _kind(place: Place) -> str:
    return f"{place.kind} of {place.group or 'the core group'}"
