"""The kinds that every supported version of Kubernetes serves, so that no server need be asked for them.

A table and not a cache of what some server has answered: one that belongs to somebody else could answer wrongly for
all others. Kinds of this table are stable, and their plural and scope never change.
"""

from kube_runtime.resource import JsonObject, Resource

# Kind and plural; those after the bar are cluster-scoped.
_TABLE = {
    "v1": "ConfigMap configmaps Endpoints endpoints LimitRange limitranges PersistentVolumeClaim persistentvolumeclaims"
    " Pod pods ReplicationController replicationcontrollers ResourceQuota resourcequotas Secret secrets"
    " Service services ServiceAccount serviceaccounts"
    " | Namespace namespaces Node nodes PersistentVolume persistentvolumes",
    "admissionregistration.k8s.io/v1": "| MutatingWebhookConfiguration mutatingwebhookconfigurations"
    " ValidatingWebhookConfiguration validatingwebhookconfigurations"
    " ValidatingAdmissionPolicy validatingadmissionpolicies"
    " ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings",
    "apiextensions.k8s.io/v1": "| CustomResourceDefinition customresourcedefinitions",
    "apiregistration.k8s.io/v1": "| APIService apiservices",
    "apps/v1": "ControllerRevision controllerrevisions DaemonSet daemonsets Deployment deployments"
    " ReplicaSet replicasets StatefulSet statefulsets",
    "autoscaling/v2": "HorizontalPodAutoscaler horizontalpodautoscalers",
    "batch/v1": "CronJob cronjobs Job jobs",
    "coordination.k8s.io/v1": "Lease leases",
    "discovery.k8s.io/v1": "EndpointSlice endpointslices",
    "events.k8s.io/v1": "Event events",
    "networking.k8s.io/v1": "Ingress ingresses NetworkPolicy networkpolicies | IngressClass ingressclasses",
    "policy/v1": "PodDisruptionBudget poddisruptionbudgets",
    "rbac.authorization.k8s.io/v1": "Role roles RoleBinding rolebindings"
    " | ClusterRole clusterroles ClusterRoleBinding clusterrolebindings",
    "scheduling.k8s.io/v1": "| PriorityClass priorityclasses",
    "storage.k8s.io/v1": "CSIStorageCapacity csistoragecapacities"
    " | CSIDriver csidrivers CSINode csinodes StorageClass storageclasses VolumeAttachment volumeattachments",
}


def _resources(api_version: str, names: str, *, namespaced: bool) -> dict[tuple[str, str], Resource[JsonObject]]:
    group, _, version = api_version.rpartition("/")
    words = names.split()
    return {
        (api_version, kind): Resource.dynamic(group, version, kind, plural, namespaced)
        for kind, plural in zip(words[::2], words[1::2], strict=True)
    }


BUILT_IN_KINDS = {
    key: resource
    for api_version, kinds in _TABLE.items()
    for names, namespaced in zip(kinds.partition("|")[::2], (True, False), strict=True)
    for key, resource in _resources(api_version, names, namespaced=namespaced).items()
}
"""The resources by apiVersion and kind."""
