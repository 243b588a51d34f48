"""The objects of a module as its policy sees them: what and where each is, and to what it refers. Pure functions."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lifecycle_manager_api.network_access import external_addresses, is_own_service, pod_selector, served_hosts
from lifecycle_manager_api.pod_security import PodTemplate, mapping, mappings

Kind = tuple[str, str]
"""The group and name of a kind."""
Scopes = Mapping[Kind, bool]
"""Whether the objects of a kind are in namespaces."""

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


def scopes_in(objects: Iterable[WrittenObject]) -> dict[Kind, bool]:
    """Return the scopes of the kinds whose CRD is among the objects."""
    found: dict[Kind, bool] = {}
    for each in objects:
        if each.kind == "CustomResourceDefinition":
            spec = mapping(each.document.get("spec"))
            kind = mapping(spec.get("names")).get("kind")
            found[str(spec.get("group")), str(kind)] = spec.get("scope") == "Namespaced"
    return found


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


def selector_of(content: Content, module: str) -> frozenset[str] | None:
    """Return the labels by which an object selects the Pods that it affects; None in the module's own namespace."""
    place = content.place
    return pod_selector(place.group, place.kind, content.document) if place.namespace != module else None


def account_of_token(content: Content) -> str | None:
    """Return the ServiceAccount that a Secret is a token of; None for other objects."""
    if (content.place.group, content.place.kind) != ("", "Secret") or content.document.get("type") != TOKEN:
        return None
    metadata = mapping(content.document.get("metadata"))
    return str(mapping(metadata.get("annotations")).get(ACCOUNT_OF_TOKEN, ""))


def accounts_in(pod: PodTemplate | None) -> set[str]:
    """Return the ServiceAccounts that Pods run as, without the one that every namespace has."""
    named = (pod.spec.get(each) for each in ("serviceAccountName", "serviceAccount")) if pod is not None else ()
    return {str(each) for each in named if each} - {DEFAULT_ACCOUNT}


def secrets_of(pod: PodTemplate | None) -> set[str]:
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
