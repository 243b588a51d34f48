"""What a module sees and changes by webhooks and admission policies beyond its own kinds. Pure functions.

An API server sends a webhook the whole of an object. One that is sent Secrets reads them, whatever RBAC says, one that
is sent Pods, or what makes them, decides what they are, and one that may change other kinds, such as bindings of roles,
decides who may do what.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lifecycle_manager_api.pod_security import Document, mapping, mappings, sequence

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that every Namespace has."""

_GROUP = "admissionregistration.k8s.io"
_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
_POLICIES = frozenset({"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"})
_CHANGING = frozenset({"MutatingWebhookConfiguration", "MutatingAdmissionPolicy"})
_PODS: Mapping[str, frozenset[str]] = {
    "": frozenset({"pods", "podtemplates", "replicationcontrollers"}),
    "apps": frozenset({"daemonsets", "deployments", "replicasets", "statefulsets"}),
    "batch": frozenset({"cronjobs", "jobs"}),
}
_IN_NO_NAMESPACE = frozenset({"*", "namespaces", "nodes", "persistentvolumes"})
"""Of the groups with Pods and what makes them."""


def sees_secrets(group: str, kind: str, document: Document, own_namespace: str) -> bool:
    """Tell whether a webhook is sent Secrets of namespaces that are not the module's own."""
    return (group, kind) in {(_GROUP, each) for each in _WEBHOOKS} and any(
        _reaches_others(each, own_namespace) and _covers(each, {"": frozenset({"secrets"})})
        for each in _matched(kind, document)
    )


def requests_of_others(
    group: str, kind: str, document: Document, own_namespace: str, is_own_crd: Callable[[str], bool]
) -> Iterator[frozenset[str]]:
    """Yield the labels of the objects of others that each webhook or admission policy decides on.

    These are Pods and what makes them, and where it may change them, all kinds that are not by the module's own CRDs.
    """
    if group == _GROUP and kind in _WEBHOOKS | _POLICIES:
        for each in _matched(kind, document):
            reaches = _reaches_others(each, own_namespace)
            changes = kind in _CHANGING and _covers_others(each, is_own_crd, is_limited=not reaches)
            if changes or (reaches and _covers(each, _PODS)):
                labels = mapping(mapping(each.get("objectSelector")).get("matchLabels"))
                yield frozenset(f"{key}={value}" for key, value in labels.items())


def _matched(kind: str, document: Document) -> Iterator[Document]:
    """Yield each webhook, or what a policy matches."""
    if kind in _WEBHOOKS:
        return mappings(document.get("webhooks"))
    return iter([mapping(mapping(document.get("spec")).get("matchConstraints"))])


def _reaches_others(matched: Document, own_namespace: str) -> bool:
    """Tell whether one is for namespaces of others."""
    return _namespaces(mapping(matched.get("namespaceSelector"))) != {own_namespace}


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
    return any(_covers_any(rule, group, wanted[group]) for rule in _rules(matched) for group in wanted)


def _covers_others(matched: Document, is_own_crd: Callable[[str], bool], *, is_limited: bool) -> bool:
    """Tell whether rules are for kinds of others. A limit to namespaces is none for what is in no namespace."""
    for rule in _rules(matched):
        if is_limited and rule.get("scope") == "Namespaced":
            continue
        for group in map(str, sequence(rule.get("apiGroups"))):
            named = {str(each).partition("/")[0] for each in sequence(rule.get("resources"))}
            if is_limited and group in _PODS:
                named &= _IN_NO_NAMESPACE
            if not all(is_own_crd(f"{each}.{group}") for each in named):
                return True
    return False


def _rules(matched: Document) -> list[Document]:
    return [*mappings(matched.get("rules")), *mappings(matched.get("resourceRules"))]


def _covers_any(rule: Document, group: str, resources: frozenset[str]) -> bool:
    named = {str(each).partition("/")[0] for each in sequence(rule.get("resources"))}
    return bool({group, "*"} & {str(each) for each in sequence(rule.get("apiGroups"))}) and bool(
        named & {*resources, "*"}
    )
