"""ModulePolicy: which objects a module may have in the users' clusters."""

from typing import Annotated, ClassVar, Literal

from kube_crds import AGE, Column, Struct, checked_by, default, schema
from lifecycle_manager_api import names
from lifecycle_manager_api.cel import IMMUTABLE, SECRET_WHERE_VERIFIED
from lifecycle_manager_api.kinds import ApiObject

PodSecurityLevel = Literal["restricted", "baseline", "privileged"]
Verify = Literal["off", "warn", "enforce"]

_PATTERN = schema(minLength=1, maxLength=253)
_SOME = schema(minItems=1)
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
Pattern = Annotated[str, _PATTERN]
"""A name, in which `*` stands for any characters."""


class KindRule(Struct, frozen=True, kw_only=True):
    """Namespaced objects by their kind."""

    group: Annotated[str, schema(maxLength=253)] = ""
    """API group of the objects: empty for the core group, * for every group."""
    kind: Pattern
    """Kind of the objects, * for every kind of the group."""
    names: tuple[Pattern, ...] = ()
    """Names of the objects, in which * stands for any characters. Left out, a rule that allows a kind is in kyma-system
    for the name of the module and for names that begin with it and a hyphen, in other namespaces for every name; a rule
    that denies one is for every name."""


class ClusterResource(Struct, frozen=True, kw_only=True):
    """Cluster-scoped objects by their kind and name."""

    group: Annotated[str, schema(maxLength=253)] = ""
    """API group of the objects: empty for the core group, * for every group."""
    kind: Pattern
    """Kind of the objects, * for every kind of the group."""
    names: Annotated[tuple[Pattern, ...], _SOME]
    """Names of the objects, in which * stands for any characters."""


DENIED: tuple[KindRule, ...] = (
    KindRule(group="rbac.authorization.k8s.io", kind="*"),
    KindRule(group="admissionregistration.k8s.io", kind="*"),
    KindRule(group="apiregistration.k8s.io", kind="*"),
)
"""What a module may not have unless its policy has another deny list."""


class NamespacedResources(Struct, frozen=True, kw_only=True):
    """The namespaced kinds that the module may have."""

    allow: tuple[KindRule, ...] = ()
    """Kinds that the module may have. Left out, it may have in its own namespaces the kinds that are known to be
    harmless, such as Deployment, Service and Ingress, and those whose CRD is among the same objects. In kyma-system,
    which all modules share, it may have only the kinds that are listed here."""
    deny: Annotated[tuple[KindRule, ...], default([{"group": each.group, "kind": each.kind} for each in DENIED])] = (
        DENIED
    )
    """Kinds that the module may not have, although they are allowed. By default all kinds of RBAC, of admission, and of
    the registration of APIs."""


class ModuleCrRule(Struct, frozen=True, kw_only=True):
    """A kind of Module CRs."""

    group: Annotated[str, schema(minLength=1, maxLength=253)]
    """API group of the kind."""
    kind: Annotated[str, schema(minLength=1, maxLength=63)]
    """The kind."""


class ModulePolicySpec(Struct, frozen=True, kw_only=True):
    """The objects that the module may have, and its namespace in the control plane."""

    control_plane_namespace: Annotated[
        str,
        default(names.KCP_NAMESPACE),
        schema(pattern=DNS_LABEL, minLength=1, maxLength=63),
        checked_by(IMMUTABLE),
    ] = names.KCP_NAMESPACE
    """Namespace in the control plane of the module's ModuleConfigs and SyncResources; it can't be changed. Those in
    other namespaces have no effect. Set it before the module has ModuleConfigs: later the policy is refused, and so is
    the deletion of one that names another namespace than kcp-system."""
    namespaces: tuple[Pattern, ...] = ()
    """Namespaces of the module's objects, in which * stands for any characters. By default the namespace with the name
    of the module, and kyma-system for the kinds in namespacedResources.allow. A pattern never matches kyma-system and
    the kube- namespaces of Kubernetes: these have to be named."""
    cluster_resources: tuple[ClusterResource, ...] = ()
    """Cluster-scoped objects of the module. By default none but the Namespace with the name of the module. The name
    aggregate-to-view, of the kind ClusterRole, allows roles whose rules Kubernetes adds to the ClusterRole view; for
    edit, admin and others it is the same."""
    namespaced_resources: NamespacedResources = NamespacedResources()
    """Kinds of the module's namespaced objects."""
    module_cr_kinds: tuple[ModuleCrRule, ...] = ()
    """Kinds of the module's Module CRs whose CRD is not among the module's own objects, or among those of another
    module too. Kinds of Kubernetes and of Lifecycle Manager are never allowed."""
    pod_security: Annotated[PodSecurityLevel, default("baseline")] = "baseline"
    """Level of the Pod Security Standards that the module's Pods have to meet, also those that objects of other kinds
    describe, and their labels and annotations. Below privileged, no kind may have fields of Pods in a text."""
    service_accounts: tuple[Pattern, ...] = ()
    """ServiceAccounts that the module's Pods may run as, and for which it may have token Secrets, in which * stands for
    any characters. Always allowed for Pods are the account named default, accounts among the module's own objects, and
    all in the namespace with the name of the module."""
    secrets: tuple[Pattern, ...] = ()
    """Secrets that the module's objects may refer to, in which * stands for any characters; * alone also allows
    webhooks that see the Secrets of others. Always allowed are Secrets among the module's own objects, and all in the
    namespace with the name of the module."""
    hosts: tuple[Pattern, ...] = ()
    """Host names that the module's objects may serve or route, such as an Ingress, a route of the Gateway API, or a
    VirtualService, and for which they may have DNS records and certificates, in which * stands for any characters. One
    that names no host serves *, and so does an Ingress with a snippet in its annotations. Always allowed are Services
    in the namespace with the name of the module."""
    addresses: tuple[Pattern, ...] = ()
    """IP addresses and host names to which the module's objects may lead, in which * stands for any characters:
    external addresses and names of Services, endpoints that the module writes itself, and URLs of webhooks."""
    pod_labels: tuple[Pattern, ...] = ()
    """Labels, each as key=value, in which * stands for any characters. An object that changes Pods, or the network or
    the availability of the Pods that it selects, such as a NetworkPolicy or a ResourceQuota, has to select by one of
    them, and so has a webhook that is sent Pods, or that changes kinds that are not the module's; * alone is for every
    selector, and for autoscalers of what is not the module's. Always allowed are kyma-project.io/module=MODULE, and all
    in the module's own namespace."""
    repair_on_events: Annotated[bool, default(True)] = True
    """Whether objects of the module that somebody deletes or edits are repaired at once, when the Watcher reports it.
    Otherwise they are repaired at the interval."""
    verify: Annotated[Verify, default("off")] = "off"
    """Whether versions of the module have to be signed: the component descriptor, by a key in verificationSecret. With
    enforce a version that is not signed is not installed, with warn it is only reported, by the condition
    DescriptorVerified of its ModuleTemplate and a metric."""
    verification_secret: Annotated[str, schema(maxLength=253)] = ""
    """Secret in kcp-system with the label operator.kyma-project.io/managed-by=lifecycle-manager whose values are the
    public keys and certificates, as PEM, of who may sign the module."""


class ModulePolicy(ApiObject, frozen=True, kw_only=True):
    """What the module of the same name may have in the users' clusters, by its SyncResources and its Manifest.

    Written by the operators of the control plane. A SyncResource or Manifest with an object that violates the policy is
    refused as a whole.
    """

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "ModulePolicy"
    PLURAL: ClassVar[str] = "modulepolicies"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("mpol",)
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Pod Security", ".spec.podSecurity"),
        Column("Namespaces", ".spec.namespaces"),
        Column("KCP Namespace", ".spec.controlPlaneNamespace"),
        AGE,
    )

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "ModulePolicy"
    spec: Annotated[ModulePolicySpec, checked_by(SECRET_WHERE_VERIFIED)]
    """The objects that the module may have, and its namespace in the control plane."""
