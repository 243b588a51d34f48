"""Draws CustomResourceDefinitions, objects of them, and what the API server asks before it stores others."""

import base64
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kyma_certs import create_ca
from tests.real_modules.pods import maybe, some

Document = dict[str, Any]
CA = base64.b64encode(create_ca("a", lifetime=timedelta(days=1), now=datetime.now(UTC)).certificate_pem).decode()
INJECT = {"cert-manager.io/inject-ca-from": "a/b"}
TYPES: dict[str, Document] = {
    "text": {"type": "string", "default": "some"},
    "number": {"type": "integer", "format": "int32"},
    "amount": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean", "nullable": True},
    "atoms": {"type": "array", "items": {"type": "string"}},
    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "port": {"type": "integer", "default": 80},
                "value": {"type": "string"},
            },
        },
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "atomic": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
}


def group_of(name: str) -> str:
    return f"{name}.walks.example.com"


def definition(draw: random.Random, name: str) -> Document:
    """Return the CRD of a kind, with all of these fields, and more of them or fewer."""
    more = {f"field{number}": {"type": "string", "description": "d" * number} for number in range(draw.randint(0, 30))}
    schema = {
        "type": "object",
        **maybe(draw, description="a kind"),
        "properties": {
            "spec": {"type": "object", "properties": {**TYPES, **more}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version |= maybe(
        draw,
        subresources={"status": {}},
        additionalPrinterColumns=[
            {"name": each, "type": "string", "jsonPath": f".spec.{each}"} for each in some(draw, ["text", "field1"])
        ],
    )
    versions = [version]
    if draw.random() < 0.3:
        versions = some(draw, [version, {**version, "name": "v1beta1", "storage": False, "deprecated": True}], 2)
    kind = f"Kind{name.title().replace('-', '')}"
    return {
        "metadata": {"name": f"things.{group_of(name)}"},
        "spec": {
            "group": group_of(name),
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "plural": "things",
                **maybe(draw, shortNames=[f"th{name}"[:20]], listKind=f"{kind}List"),
            },
            "versions": versions,
            **maybe(draw, preserveUnknownFields=False),
        },
    }


def thing(draw: random.Random, name: str) -> Document:
    """Return what an object of such a kind has."""
    items = [{"name": "a", "port": 80}, {"name": "a", "port": 81}, {"name": "b", **maybe(draw, value="x")}]
    nested = {"list": [{"a": 1, "b": [draw.randint(1, 3)]}], **maybe(draw, deep={"er": None, "est": {}}, text="t")}
    spec = maybe(
        draw,
        text=draw.choice(["", "x", "1e3"]),
        number=draw.randint(0, 3),
        amount=draw.choice([1, "1", "25%"]),
        ratio=draw.choice([1, 1.0, 0.5, 1e3]),
        flag=draw.choice([True, False, None]),
        atoms=some(draw, ["a", "b", "b"]),
        set=some(draw, ["a", "b", "c"]),
        items=some(draw, items),
        free=nested,
        map=maybe(draw, a="1", b=""),
        atomic=maybe(draw, a="1", b=""),
    )
    return {"apiVersion": f"{group_of(name)}/v1", "kind": f"Kind{name.title().replace('-', '')}", "spec": spec}


def _hook(draw: random.Random, name: str) -> Document:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": some(draw, ["pods", "secrets"], 1),
    }
    service = {"name": "hook", "namespace": "default", **maybe(draw, path="/validate", port=8443)}
    return {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": service, **maybe(draw, caBundle=CA)},
        "namespaceSelector": {"matchLabels": {"nobody": "has"}},
        **maybe(draw, rules=[rule], failurePolicy="Ignore", timeoutSeconds=draw.choice([5, 10])),
    }


def webhooks(draw: random.Random, _name: str) -> Document:
    return maybe(draw, webhooks=[_hook(draw, each) for each in some(draw, ["a.v", "b.v"], 1)])


def _policy(draw: random.Random, _name: str) -> Document:
    rule = {"apiGroups": ["nobody.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    checks = [{"expression": each} for each in some(draw, ["true", "object != null"], 1)]
    return {
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": checks,
            **maybe(draw, failurePolicy="Ignore"),
        }
    }


def _policy_binding(draw: random.Random, name: str) -> Document:
    return {"spec": {"policyName": name, "validationActions": some(draw, ["Audit", "Warn"], 1)}}


_ADMISSION = "admissionregistration.k8s.io/v1"
DEFINITION_KINDS: tuple[tuple[str, str, Callable[[random.Random, str], Document], bool], ...] = (
    (_ADMISSION, "ValidatingWebhookConfiguration", webhooks, False),
    (_ADMISSION, "MutatingWebhookConfiguration", webhooks, False),
    (_ADMISSION, "ValidatingAdmissionPolicy", _policy, False),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding", _policy_binding, False),
)
