"""Which objects violate the ModulePolicy of their module. Pure functions.

Each check is named by what it finds and returns the rule of the policy with a message. Checks of an object's place need
no more than its kind, namespace and name, so they also decide what may be deleted; checks of its content need the whole
of it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import msgspec

from lifecycle_manager_api import names
from lifecycle_manager_api.module_policy import (
    DENIED,
    ClusterResource,
    KindRule,
    ModulePolicySpec,
    NamespacedResources,
    PodSecurityLevel,
)
from lifecycle_manager_api.pod_security import PodTemplate, mapping, mappings, pod_template_of, violated_rules

Kind = tuple[str, str]
"""The group and name of a kind."""
Scopes = Mapping[Kind, bool]
"""Whether the objects of a kind are in namespaces."""

DEFAULTS = ModulePolicySpec()
"""The policy of a module without a ModulePolicy."""
SYSTEM_NAMESPACES = frozenset({names.SKR_NAMESPACE, "kube-system", "kube-public", "kube-node-lease"})
DEFAULT_ACCOUNT = "default"
TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret
ACCOUNT_OF_TOKEN = "kubernetes.io/service-account.name"  # noqa: S105 - the name of an annotation
WATCHER = "skr-webhook"
"""The name, or the prefix of the names, of the Watcher's objects in kyma-system."""

_CLUSTER_SCOPED: Mapping[str, str] = {
    "": "ComponentStatus Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "authentication.k8s.io": "SelfSubjectReview TokenReview",
    "authorization.k8s.io": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "StorageVersion",
    "networking.k8s.io": "IPAddress IngressClass ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass DeviceTaintRule ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
    "storagemigration.k8s.io": "StorageVersionMigration",
}
CLUSTER_SCOPED = frozenset((group, kind) for group, kinds in _CLUSTER_SCOPED.items() for kind in kinds.split())
"""Kinds of Kubernetes whose objects are in no namespace."""

_SECRET_REFERENCES = frozenset({"secretRef", "secretKeyRef", "nodePublishSecretRef", "secret"})


class WrittenObject(Protocol):
    """An object as it was written, with the index of its document."""

    @property
    def api_version(self) -> str:
        """Group and version."""

    @property
    def kind(self) -> str:
        """Kind."""

    @property
    def namespace(self) -> str:
        """Namespace as it was written; empty where there is none."""

    @property
    def name(self) -> str:
        """Name."""

    @property
    def document(self) -> Mapping[str, Any]:
        """The whole object."""

    @property
    def index(self) -> int:
        """Index of the document, counted from 0."""


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


@dataclass(frozen=True, slots=True)
class Place:
    """What an object is, and where: its namespace is empty if it is cluster-scoped."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Content:
    """An object in its place, and the places of all objects of its set."""

    place: Place
    document: Mapping[str, Any]
    pod: PodTemplate | None
    places: Collection[Place] = field(repr=False)

    def has_own(self, kind: str, name: str) -> bool:
        """Tell whether an object of the core group is among the objects of the set, in the same namespace."""
        return Place("", kind, self.place.namespace, name) in self.places


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
    known = {**_scopes_in(listed), **(scopes or {}), **dict.fromkeys(CLUSTER_SCOPED, False)}
    placed = [(each, _place_of(each, rules, known, default_namespace)) for each in listed]
    places = frozenset(place for _, place in placed)
    for each, place in placed:
        pod = pod_template_of(place.group, place.kind, each.document)
        content = Content(place, each.document, pod, places)
        for rule, message in (*_placement(place, rules), *(it for check in CONTENT for it in check(content, rules))):
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
    if not place.namespace or any(_names_kind(each, place) for each in allowed):
        return
    if allowed or place.namespace == names.SKR_NAMESPACE:
        yield "spec.namespacedResources.allow", f"does not list {_kind(place)} with this name"


def denied_kind(place: Place, rules: ModuleRules) -> Found:
    """Find kinds that the policy denies."""
    if place.namespace and any(_names_kind(each, place) for each in rules.spec.namespaced_resources.deny):
        yield "spec.namespacedResources.deny", f"lists {_kind(place)}"


def foreign_token(content: Content, rules: ModuleRules) -> Found:
    """Find Secrets that Kubernetes would fill with the token of a ServiceAccount."""
    account = _account_of_token(content)
    if account is not None and not _matches_name(rules.spec.service_accounts, account, content.place.namespace):
        yield "spec.serviceAccounts", f"it is a token of ServiceAccount {account!r}, which is not listed"


def foreign_service_account(content: Content, rules: ModuleRules) -> Found:
    """Find Pods that run as a ServiceAccount of somebody else."""
    place = content.place
    for field_name in ("serviceAccountName", "serviceAccount") if content.pod is not None else ():
        account = str(content.pod.spec.get(field_name) or DEFAULT_ACCOUNT) if content.pod is not None else ""
        own = (
            account == DEFAULT_ACCOUNT or place.namespace == rules.module or content.has_own("ServiceAccount", account)
        )
        if not own and not _matches_name(rules.spec.service_accounts, account, place.namespace):
            yield "spec.serviceAccounts", f"its Pods run as ServiceAccount {account}, which is not listed"
            return


def foreign_secret(content: Content, rules: ModuleRules) -> Found:
    """Find Pods that use a Secret of somebody else."""
    place = content.place
    for secret in sorted(_secrets_of(content.pod)) if place.namespace != rules.module else ():
        if not content.has_own("Secret", secret) and not _matches_name(rules.spec.secrets, secret, place.namespace):
            yield "spec.secrets", f"its Pods use Secret {secret}, which is not listed"


def unsafe_pod(content: Content, rules: ModuleRules) -> Found:
    """Find Pods that do not meet the policy's level of the Pod Security Standards."""
    level = rules.spec.pod_security
    if content.pod is not None:
        for rule, message in violated_rules(content.pod, level):
            yield f"spec.podSecurity {level}", f"{rule}: {message}"


def node_volume(content: Content, rules: ModuleRules) -> Found:
    """Find PersistentVolumes that are folders of a node: by a claim a Pod gets the same as by a hostPath."""
    place, level = content.place, rules.spec.pod_security
    if (place.group, place.kind) == ("", "PersistentVolume") and level != "privileged":
        spec = mapping(content.document.get("spec"))
        for kind in ("hostPath", "local"):
            if spec.get(kind) is not None:
                yield f"spec.podSecurity {level}", f"HostPath Volumes: spec.{kind} is a folder of a node"


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
)


def needed_policy(objects: Iterable[WrittenObject], module: str, *, default_namespace: str) -> ModulePolicySpec:
    """Return the policy that a module needs for its objects, and no more than that."""
    listed = tuple(objects)
    known = {**_scopes_in(listed), **dict.fromkeys(CLUSTER_SCOPED, False)}
    placed = [(each, _place_of(each, ModuleRules(module), known, default_namespace)) for each in listed]
    namespaced = [place for _, place in placed if place.namespace]
    kinds = sorted({(each.group, each.kind) for each in namespaced})
    namespaces = sorted({each.namespace for each in namespaced} | {module})
    wide = ModuleRules(module, ModulePolicySpec(namespaces=tuple(namespaces)))
    cluster: dict[Kind, list[str]] = {}
    for _, place in placed:
        if any(cluster_scoped_object(place, wide)):
            cluster.setdefault((place.group, place.kind), []).append(place.name)
    places = frozenset(place for _, place in placed)
    contents = [
        Content(place, each.document, pod_template_of(place.group, place.kind, each.document), places)
        for each, place in placed
    ]
    outside = [each for each in contents if each.place.namespace != module]
    accounts = {it for each in outside for it in _accounts_in(each.pod) if not each.has_own("ServiceAccount", it)}
    secrets = {it for each in outside for it in _secrets_of(each.pod) if not each.has_own("Secret", it)}
    tokens = {it for each in contents if (it := _account_of_token(each)) is not None}
    shared = any(each.namespace == names.SKR_NAMESPACE for each in namespaced)
    denied = tuple(each for each in DENIED if not any(_names_kind(each, place) for place in namespaced))
    default = set(namespaces) <= {module, names.SKR_NAMESPACE}
    return ModulePolicySpec(
        namespaces=() if default else tuple(namespaces),
        cluster_resources=tuple(
            ClusterResource(group=group, kind=kind, names=tuple(found))
            for (group, kind), found in sorted(cluster.items())
        ),
        namespaced_resources=NamespacedResources(
            allow=tuple(KindRule(group=group, kind=kind) for group, kind in kinds) if shared else (),
            deny=DENIED if denied == DENIED else denied,
        ),
        pod_security=_strictest_level(contents, module),
        service_accounts=tuple(sorted(accounts | tokens)),
        secrets=tuple(sorted(secrets)),
    )


def _strictest_level(contents: Collection[Content], module: str) -> PodSecurityLevel:
    levels: tuple[PodSecurityLevel, ...] = ("restricted", "baseline")
    for level in levels:
        rules = ModuleRules(module, msgspec.structs.replace(ModulePolicySpec(), pod_security=level))
        if not any(any(unsafe_pod(each, rules)) or any(node_volume(each, rules)) for each in contents):
            return level
    return "privileged"


def _placement(place: Place, rules: ModuleRules) -> Found:
    for check in PLACEMENT:
        yield from check(place, rules)


def _place_of(thing: WrittenObject, rules: ModuleRules, scopes: Scopes, default_namespace: str) -> Place:
    """Return the place of an object. An unknown kind without a namespace is what the policy lists it as."""
    group = thing.api_version.rpartition("/")[0]
    namespaced = scopes.get((group, thing.kind))
    cluster = Place(group, thing.kind, "", thing.name)
    if namespaced is None and not thing.namespace:
        namespaced = not any(_names_cluster_resource(each, cluster) for each in rules.spec.cluster_resources)
    if namespaced is False:
        return cluster
    return Place(group, thing.kind, thing.namespace or default_namespace, thing.name)


def _scopes_in(objects: Iterable[WrittenObject]) -> dict[Kind, bool]:
    """Return the scopes of the kinds whose CRD is among the objects."""
    found: dict[Kind, bool] = {}
    for each in objects:
        if each.kind == "CustomResourceDefinition":
            spec = mapping(each.document.get("spec"))
            kind = mapping(spec.get("names")).get("kind")
            found[str(spec.get("group")), str(kind)] = spec.get("scope") == "Namespaced"
    return found


def _names_kind(rule: KindRule, place: Place) -> bool:
    return (
        rule.group in ("*", place.group)
        and _matches((rule.kind,), place.kind)
        and (not rule.names or _matches(rule.names, place.name))
    )


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
    return any(_compiled(each).fullmatch(text) is not None for each in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _kind(place: Place) -> str:
    return f"{place.kind} of {place.group or 'the core group'}"


def _account_of_token(content: Content) -> str | None:
    """Return the ServiceAccount that a Secret is a token of; None for other objects."""
    if (content.place.group, content.place.kind) != ("", "Secret") or content.document.get("type") != TOKEN:
        return None
    metadata = mapping(content.document.get("metadata"))
    return str(mapping(metadata.get("annotations")).get(ACCOUNT_OF_TOKEN, ""))


def _accounts_in(pod: PodTemplate | None) -> set[str]:
    """Return the ServiceAccounts that Pods run as, without the one that every namespace has."""
    named = (pod.spec.get(each) for each in ("serviceAccountName", "serviceAccount")) if pod is not None else ()
    return {str(each) for each in named if each} - {DEFAULT_ACCOUNT}


def _secrets_of(pod: PodTemplate | None) -> set[str]:
    return set(_secrets_in(pod.spec)) if pod is not None else set()


def _secrets_in(value: Any) -> Iterator[str]:
    """Yield the names of the Secrets that a Pod spec refers to: in volumes, in variables, and to pull images."""
    if isinstance(value, list):
        for each in value:
            yield from _secrets_in(each)
    elif isinstance(value, Mapping):
        if isinstance(name := value.get("secretName"), str):
            yield name
        for key in _SECRET_REFERENCES & value.keys():
            if isinstance(name := mapping(value[key]).get("name"), str):
                yield name
        for each in mappings(value.get("imagePullSecrets")):
            if isinstance(name := each.get("name"), str):
                yield name
        for each in value.values():
            yield from _secrets_in(each)
