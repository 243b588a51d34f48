"""What is known of kinds: which belong to Kubernetes, which to the Lifecycle Manager, and which do no harm.

A kind that nobody knows may do anything: a program in the cluster acts on its objects with rights of its own. So what
is allowed without being named is listed here, and not what is forbidden.
"""

import re
from collections.abc import Mapping

from lifecycle_manager_api import names
from lifecycle_manager_api.crds import KINDS

_HARMLESS: Mapping[str, str] = {
    "": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "ResourceQuota Secret Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "autoscaling.k8s.io": "VerticalPodAutoscaler",
    "batch": "CronJob Job",
    "cert-manager.io": "Certificate",
    "cert.gardener.cloud": "Certificate",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "dns.gardener.cloud": "DNSEntry",
    "events.k8s.io": "Event",
    "gateway.kyma-project.io": "APIRule",
    "gateway.networking.k8s.io": "GRPCRoute Gateway HTTPRoute ListenerSet TCPRoute TLSRoute UDPRoute",
    "networking.istio.io": "DestinationRule Gateway ServiceEntry Sidecar VirtualService WorkloadEntry",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "security.istio.io": "AuthorizationPolicy PeerAuthentication RequestAuthentication",
    "telemetry.istio.io": "Telemetry",
}
HARMLESS = frozenset((group, kind) for group, kinds in _HARMLESS.items() for kind in kinds.split())
"""Namespaced kinds that reach nowhere beyond their namespace but by what the checks of a policy find in them."""

_OURS = frozenset(each.KIND.lower() for each in KINDS)
_SERVED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_GROUP = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_VERSION = re.compile(_LABEL)
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def kind_refusal(api_version: str, kind: str) -> str | None:
    """Return why no module may have its Module CRs of a kind; None for one that a CRD of a module may define.

    An API server accepts CRDs only of groups with a dot, and approves those of Kubernetes itself.
    """
    group, _, version = api_version.rpartition("/")
    if "." not in group or _SERVED.search(group.lower()):
        return f"{kind} of {group or 'the core group'} is a kind of Kubernetes"
    if not (_GROUP.fullmatch(group) and _VERSION.fullmatch(version) and _KIND.fullmatch(kind)):
        return f"apiVersion {api_version!r} and kind {kind!r} are those of no CRD"
    if group == names.GROUP and kind.lower() in _OURS:
        return f"{kind} of {group} is a kind of the Lifecycle Manager"
    return None
