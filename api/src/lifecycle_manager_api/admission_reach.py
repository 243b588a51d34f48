"""What a module sees and changes by webhooks and admission policies beyond its own kinds. Pure functions.

An API server sends a webhook the whole of an object. One that is sent Secrets reads them, whatever RBAC says, and one
that is sent Pods, or what makes them, decides what they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle_manager_api.pod_security import Document, mapping, mappings, sequence

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that every Namespace has."""

_GROUP = "admissionregistration.k8s.io"
_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
_POLICIES = frozenset({"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"})
_PODS: Mapping[str, frozenset[str]] = {
    "": frozenset({"pods", "podtemplates", "replicationcontrollers"}),
    "apps": frozenset({"daemonsets", "deployments", "replicasets", "statefulsets"}),
    "batch": frozenset({"cronjobs", "jobs"}),
}


def sees_secrets(group: str, kind: str, document: Document, own_namespace: str) -> bool:
    """Tell whether a webhook is sent Secrets of namespaces that are not the module's own."""
    return (group, kind) in {(_GROUP, each) for each in _WEBHOOKS} and any(
        _covers(each, {"": frozenset({"secrets"})}) for each in _reaching(kind, document, own_namespace)
    )


def pod_requests(group: str, kind: str, document: Document, own_namespace: str) -> Iterator[frozenset[str]]:
    """Yield the labels of the Pods that each webhook or admission policy decides on, in namespaces of others."""
    if group == _GROUP and kind in _WEBHOOKS | _POLICIES:
        for each in _reaching(kind, document, own_namespace):
            if _covers(each, _PODS):
                labels = mapping(mapping(each.get("objectSelector")).get("matchLabels"))
                yield frozenset(f"{key}={value}" for key, value in labels.items())


def _reaching(kind: str, document: Document, own_namespace: str) -> Iterator[Document]:
    """Yield each webhook, or what a policy matches, that is for namespaces of others."""
    spec = mapping(document.get("spec"))
    found = mappings(document.get("webhooks")) if kind in _WEBHOOKS else iter([mapping(spec.get("matchConstraints"))])
    for each in found:
        if _namespaces(mapping(each.get("namespaceSelector"))) != {own_namespace}:
            yield each


def _namespaces(selector: Document) -> set[Any]:
    """Return the names of the namespaces that a selector is limited to; nothing where it is not."""
    label = mapping(selector.get("matchLabels")).get(NAMESPACE_NAME)
    if label is not None:
        return {str(label)}
    for each in mappings(selector.get("matchExpressions")):
        if (each.get("key"), each.get("operator")) == (NAMESPACE_NAME, "In"):
            return {str(value) for value in sequence(each.get("values"))}
    return set()


def _covers(matched: Document, wanted: Mapping[str, frozenset[str]]) -> bool:
    rules = [*mappings(matched.get("rules")), *mappings(matched.get("resourceRules"))]
    return any(_covers_any(rule, group, wanted[group]) for rule in rules for group in wanted)


def _covers_any(rule: Document, group: str, resources: frozenset[str]) -> bool:
    named = {str(each).partition("/")[0] for each in sequence(rule.get("resources"))}
    return bool({group, "*"} & {str(each) for each in sequence(rule.get("apiGroups"))}) and bool(
        named & {*resources, "*"}
    )
