"""The objects of a module as its policy sees them: what and where each is, and to what it refers. Pure functions."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lifecycle_manager_api.admission_reach import requests_of_others
from lifecycle_manager_api.embedded_pods import NamedValue, mappings_in, pods_of, values_in
from lifecycle_manager_api.network_access import external_addresses, is_own_service, pod_selector, served_hosts
from lifecycle_manager_api.pod_marks import pods_in_marks
from lifecycle_manager_api.pod_security import PodTemplate, mapping, sequence

Kind = tuple[str, str]
"""The group and name of a kind."""
Scopes = Mapping[Kind, bool]
"""Whether the objects of a kind are in namespaces."""

CRD: Kind = ("apiextensions.k8s.io", "CustomResourceDefinition")
TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret
DEFAULT_ACCOUNT = "default"
ACCOUNT_OF_TOKEN = "kubernetes.io/service-account.name"  # noqa: S105 - the name of an annotation
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

_NAMES_OF_SECRETS = re.compile(
    r".*(secretnames?|secretref|existingsecret|pullsecrets?|tlssecret|credentialnames?)|secrets|[^/]*/.*secret"
)
"""Fields and annotations, in lower case, whose texts are names of Secrets."""
_NOT_SECRETS = ("secretstore", "secretclass")
_TARGETS = frozenset({"scaleTargetRef", "targetRef"})
_AGGREGATED = "/aggregate-to-"
WATCHER = "skr-webhook"
"""The name, or the prefix of the names, of the Watcher's objects in kyma-system."""
_WATCHERS = re.compile(rf"(^|[^a-z0-9.-])({WATCHER}(-[a-z0-9-]+)?)($|[^a-z0-9-])")


class SecretReference(NamedTuple):
    """A Secret to which an object refers; without a namespace where neither the reference nor the object has one."""

    namespace: str
    name: str


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
    """An object in its place, with its Pods and all that is in it, and the places of all objects of its set."""

    place: Place
    document: Mapping[str, Any]
    pods: tuple[PodTemplate, ...]
    values: tuple[NamedValue, ...] = field(repr=False)
    places: Collection[Place] = field(repr=False)

    @classmethod
    def of(cls, place: Place, document: Mapping[str, Any], places: Collection[Place]) -> "Content":
        values = tuple(values_in(place.group, place.kind, document))
        pods = (*pods_of(place.group, place.kind, document), *pods_in_marks(values))
        return cls(place, document, pods, values, places)

    def has_own(self, kind: str, name: str, namespace: str | None = None) -> bool:
        """Tell whether an object of the core group is among those of the set, by default in the same namespace."""
        return Place("", kind, self.place.namespace if namespace is None else namespace, name) in self.places

    def has_own_crd(self, name: str) -> bool:
        """Tell whether a CRD is among those of the set."""
        return Place(*CRD, "", name) in self.places


def scopes_in(objects: Iterable[WrittenObject]) -> dict[Kind, bool]:
    """Return the scopes of the kinds whose CRD is among the objects."""
    return dict(found for each in objects if (found := defined_by(each)) is not None)


def defined_by(thing: WrittenObject) -> tuple[Kind, bool] | None:
    """Return the kind that a CRD defines, and whether it is namespaced; None for anything else.

    A policy allows CRDs by their names, and an API server accepts none whose name ends with another group.
    """
    if (thing.api_version.rpartition("/")[0], thing.kind) != CRD:
        return None
    spec = mapping(thing.document.get("spec"))
    group, kind = spec.get("group"), mapping(spec.get("names")).get("kind")
    if not isinstance(kind, str) or group != thing.name.partition(".")[2]:
        return None
    return (str(group), kind), spec.get("scope") == "Namespaced"


def is_named_after(module: str, name: str) -> bool:
    """Tell whether a name is that of a module, or begins with it and a hyphen."""
    return name == module or name.startswith(f"{module}-")


def hosts_of(content: Content, module: str) -> frozenset[str]:
    """Return the hosts that an object serves, without the Services of the module's own namespace."""
    place = content.place
    found = served_hosts(place.group, place.kind, content.document)
    hosts = {host.rpartition("/")[2].lower() for host in found}
    return frozenset(it for it in hosts if place.namespace != module or not is_own_service(it, module))


def addresses_of(content: Content) -> frozenset[str]:
    place = content.place
    return frozenset(external_addresses(place.group, place.kind, content.document))


def selectors_of(content: Content, module: str) -> tuple[frozenset[str], ...]:
    """Return the labels by which an object selects Pods, or a webhook anything, that it affects, each time it does so.

    In the module's own namespace they are the module's. A target that is not the module's is one of every Pod.
    """
    place = content.place
    if place.namespace == module:
        return ()
    selected = pod_selector(place.group, place.kind, content.document)
    requests = tuple(requests_of_others(place.group, place.kind, content.document, module, content.has_own_crd))
    targets = (frozenset[str]() for _ in foreign_targets(content, module))
    return (*(() if selected is None else (selected,)), *requests, *targets)


def foreign_targets(content: Content, module: str) -> Iterator[str]:
    """Yield the workloads that an object scales or changes and that are not the module's own."""
    for key, value in content.values:
        if key in _TARGETS and isinstance(name := mapping(value).get("name"), str):
            is_workload = mapping(value).get("kind") not in ("Service", "Gateway", "HTTPRoute", "Namespace")
            if is_workload and not is_named_after(module, name) and not _has_target(content, mapping(value), name):
                yield name


def _has_target(content: Content, target: Mapping[str, Any], name: str) -> bool:
    version = str(target.get("apiVersion") or "apps/v1")
    group = str(target.get("group", version.rpartition("/")[0]))  # policies of gateways and meshes name the group alone
    place = Place(group, str(target.get("kind") or "Deployment"), content.place.namespace, name)
    return place in content.places


def aggregated_roles(content: Content) -> Iterator[str]:
    """Yield the ClusterRoles to which Kubernetes adds the rules of a ClusterRole."""
    if (content.place.group, content.place.kind) == ("rbac.authorization.k8s.io", "ClusterRole"):
        for key, value in mapping(mapping(content.document.get("metadata")).get("labels")).items():
            if _AGGREGATED in key and str(value).lower() == "true":
                yield key.partition("/")[2]


def names_of_the_watcher(content: Content) -> set[str]:
    """Return the names of the Watcher's objects that an object has anywhere but in data or a schema."""
    texts = (value for _, value in content.values if isinstance(value, str) and WATCHER in value)
    return {found[2] for text in texts for found in _WATCHERS.finditer(text)}


def account_of_token(content: Content) -> str | None:
    """Return the ServiceAccount that a Secret is a token of; None for other objects."""
    if (content.place.group, content.place.kind) != ("", "Secret") or content.document.get("type") != TOKEN:
        return None
    metadata = mapping(content.document.get("metadata"))
    return str(mapping(metadata.get("annotations")).get(ACCOUNT_OF_TOKEN, ""))


def accounts_in(content: Content) -> set[str]:
    """Return the ServiceAccounts that an object refers to, without the one that every namespace has."""
    fields = ("serviceAccountName", "serviceAccount")
    found = [pod.spec.get(each) for pod in content.pods for each in fields]
    if content.place.group != "rbac.authorization.k8s.io":
        found += [value for key, value in content.values if key in fields]
        found += [
            mapping(value).get("name") for key, value in content.values if key.lower().startswith("serviceaccount")
        ]
    return {each for each in found if isinstance(each, str) and each} - {DEFAULT_ACCOUNT}


def secrets_of(content: Content) -> set[SecretReference]:
    """Return the Secrets that an object refers to, in whatever form its kind has."""
    of_pods = (each for pod in content.pods for each in _secrets_in(pod.spec))
    of_document = _secrets_in(content.document, has_namespace=bool(content.place.namespace)) if content.values else ()
    return {SecretReference(each.namespace or content.place.namespace, each.name) for each in (*of_pods, *of_document)}


def _secrets_in(document: Any, *, has_namespace: bool = True) -> Iterator[SecretReference]:
    for holder in mappings_in(document):
        if holder.get("kind") == "Secret" and isinstance(holder.get("name"), str):
            yield _reference(holder, holder["name"])
        for key, value in holder.items():
            lower, items = str(key).lower(), sequence(value) or [value]
            if "secret" in lower and not any(each in lower for each in _NOT_SECRETS):
                named = (mapping(each) for each in items)
                yield from (_reference(each, name) for each in named if isinstance(name := each.get("name"), str))
            elif key == "certificateRefs":
                named = (each for each in map(mapping, items) if "kind" not in each)
                yield from (_reference(each, name) for each in named if isinstance(name := each.get("name"), str))
            if _NAMES_OF_SECRETS.fullmatch(lower) is not None:
                # An annotation beside another one means nothing, and then the object's own namespace counts, if any.
                beside: tuple[Mapping[str, Any], ...] = (holder, {}) if has_namespace else (holder,)
                yield from (_reference(it, each) for it in beside for each in items if isinstance(each, str))


def _reference(holder: Mapping[str, Any], name: str) -> SecretReference:
    """Return a reference to a Secret, in the namespace that is named beside it or, as by Ingress controllers, in it."""
    *_, within, last = ("", *name.split("/"))
    beside = holder.get("secretNamespace") or holder.get("namespace")
    return SecretReference(within or (beside if isinstance(beside, str) else ""), last)
