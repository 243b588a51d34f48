"""The content of documents as it is applied: without fields that the server or another controller fills in."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from kube_runtime.resource import JsonObject

INJECTED_BY = "cert-manager.io/inject-"
"""The prefix of annotations that ask cert-manager to fill in a CA."""
OF_THE_SERVER = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Fields of metadata that a server fills in."""
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def content_to_apply(group: str, kind: str, document: Mapping[str, Any]) -> JsonObject:
    """Return a document without its status and without what another controller is to fill in.

    - `stringData` of a Secret becomes `data`, as the server would have it. Nobody owns what the server makes of it: a
      key that is no longer in the document would stay
    - `rules` of a ClusterRole with an `aggregationRule` are those of other ClusterRoles
    - a `caBundle` without a certificate is a placeholder; so is any that cert-manager is asked to inject
    """
    content = {key: value for key, value in document.items() if key != "status"}
    match group, kind:
        case "", "Secret":
            return _secret(content)
        case "rbac.authorization.k8s.io", "ClusterRole" if content.get("aggregationRule"):
            return {key: value for key, value in content.items() if key != "rules"}
        case "admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
            return _changed(content, ("webhooks", "clientConfig"), document)
        case "apiextensions.k8s.io", "CustomResourceDefinition":
            return _changed(content, ("spec", "conversion", "webhook", "clientConfig"), document)
        case "apiregistration.k8s.io", "APIService":
            return _changed(content, ("spec",), document)
        case _:
            return content


def removes_itself(document: Mapping[str, Any]) -> bool:
    """Tell whether a server deletes an object once it is done, as a Job: applied again, it would run again."""
    return document["kind"] == "Job" and "ttlSecondsAfterFinished" in (document.get("spec") or {})


def _secret(content: JsonObject) -> JsonObject:
    """Return a Secret with `data` alone. What is no text is left to the server to refuse."""
    texts, data = content.get("stringData"), content.get("data") or {}
    if not isinstance(texts, Mapping) or not isinstance(data, Mapping):
        return content
    if not all(isinstance(value, str) for value in texts.values()):
        return content
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
    return {**{key: value for key, value in content.items() if key != "stringData"}, "data": {**data, **encoded}}


def _changed(content: JsonObject, path: Sequence[str], document: Mapping[str, Any]) -> JsonObject:
    """Return a section of a document without the placeholders of CAs at a path; of a list, in each item."""
    if not path:
        return _without_placeholder(content, document)
    step, *rest = path
    below = content.get(step)
    if isinstance(below, Mapping):
        return {**content, step: _changed(dict(below), rest, document)}
    if isinstance(below, list):
        items = [_changed(dict(each), rest, document) if isinstance(each, Mapping) else each for each in below]
        return {**content, step: items}
    return content


def _without_placeholder(config: Mapping[str, Any], document: Mapping[str, Any]) -> JsonObject:
    annotations = document["metadata"].get("annotations") or {}
    is_injected = any(str(key).startswith(INJECTED_BY) for key in annotations)
    if not is_injected and _has_certificate(config.get("caBundle")):
        return dict(config)
    return {key: value for key, value in config.items() if key != "caBundle"}


def _has_certificate(bundle: object) -> bool:
    """Tell whether a CA bundle holds a certificate. What is no base64 is left to the server to refuse."""
    if not isinstance(bundle, str):
        return bundle is not None
    try:
        return _CERTIFICATE in base64.b64decode(bundle, validate=True)
    except binascii.Error:
        return bool(bundle.strip())
