"""What somebody empties or removes of an applied object is back with the next apply of the same process."""

from collections.abc import Collection
from typing import Any

import pytest

from kube_runtime import Applier, Client, InventoryEntry, JsonObject, KubernetesObject
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import as_text
from tests.kinds import crd_of
from tests.waiting import eventually

Document = dict[str, Any]
NAME = "emptied"
RBAC = "rbac.authorization.k8s.io"


def document(api_version: str, kind: str, *, metadata: Document | None = None, **content: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME, **(metadata or {})}, **content}


def hook(name: str) -> Document:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": ["a.b"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
    }


CONTAINER = {"name": "a", "image": "a", "args": ["x"], "env": [{"name": "E", "value": "1"}]}
POD = {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "k", "operator": "Exists"}], "containers": [CONTAINER]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": POD}
HOOKS = [hook("a.a.b"), hook("b.a.b")]
WITHOUT_RULES = [{**each, "rules": []} for each in HOOKS]
VALIDATING = document("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=HOOKS)
MUTATING = document("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=HOOKS)
ROLE = document(f"{RBAC}/v1", "ClusterRole", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
BINDING = document(
    f"{RBAC}/v1",
    "ClusterRoleBinding",
    roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "x"},
    subjects=[{"kind": "User", "apiGroup": RBAC, "name": "u"}],
)
LABELLED = {"labels": {"l": "1"}, "annotations": {"n": "1"}}
CONFIG_MAP = document("v1", "ConfigMap", metadata=LABELLED, data={"a": "1", "b": "2"})
SECRET = document("v1", "Secret", stringData={"a": "1"})
PORTS = [{"port": 80, "name": "http"}, {"port": 81, "name": "more"}]
SERVICE = document("v1", "Service", spec={"selector": {"a": "b"}, "ports": PORTS})
ACCOUNT = document("v1", "ServiceAccount", imagePullSecrets=[{"name": "a"}])
DEPLOYMENT = document(
    "apps/v1",
    "Deployment",
    spec={"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
)
POLICY_SPEC = {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"], "ingress": [{}]}
POLICY = document("networking.k8s.io/v1", "NetworkPolicy", spec=POLICY_SPEC)
SPEC = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "atomic": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "none": {"type": "string", "nullable": True},
    },
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}
CRD = crd_of("example.com", "Emptied", "v1", "v2", scope="Cluster", schema=SCHEMA)
CRD["spec"]["names"]["shortNames"] = ["emptd"]
CUSTOM = document(
    "example.com/v1",
    "Emptied",
    spec={"atomic": ["a", "b"], "set": ["a"], "map": {"a": "b"}, "none": None, "free": {"a": ["b"]}, "list": []},
)


def of_container(**changed: Any) -> Document:
    return {"spec": {"template": {"spec": {"containers": [{**CONTAINER, **changed}]}}}}


CHANGES: dict[str, tuple[Document, Document]] = {
    "webhooks": (VALIDATING, {"webhooks": []}),
    "webhooks of a mutating configuration": (MUTATING, {"webhooks": None}),
    "one webhook": (VALIDATING, {"webhooks": HOOKS[1:]}),
    "rules of webhooks": (VALIDATING, {"webhooks": WITHOUT_RULES}),
    "rules of mutating webhooks": (MUTATING, {"webhooks": WITHOUT_RULES}),
    "rules": (ROLE, {"rules": []}),
    "no rules": (ROLE, {"rules": None}),
    "subjects": (BINDING, {"subjects": []}),
    "data": (CONFIG_MAP, {"data": {"a": None, "b": None}}),
    "no data": (CONFIG_MAP, {"data": None}),
    "labels and annotations": (CONFIG_MAP, {"metadata": {"labels": None, "annotations": None}}),
    "data of a Secret": (SECRET, {"data": None}),
    "one port": (SERVICE, {"spec": {"ports": PORTS[:1]}}),
    "selector": (SERVICE, {"spec": {"selector": None}}),
    "pull secrets": (ACCOUNT, {"imagePullSecrets": []}),
    "arguments": (DEPLOYMENT, of_container(args=[])),
    "variables": (DEPLOYMENT, of_container(env=None)),
    "tolerations": (DEPLOYMENT, {"spec": {"template": {"spec": {"tolerations": [], "nodeSelector": None}}}}),
    "ingress": (POLICY, {"spec": {"ingress": [], "podSelector": {"matchLabels": None}}}),
    "versions": (CRD, {"spec": {"versions": CRD["spec"]["versions"][:1]}}),
    "short names": (CRD, {"spec": {"names": {"shortNames": []}}}),
    "atomic list": (CUSTOM, {"spec": {"atomic": []}}),
    "item of an atomic list": (CUSTOM, {"spec": {"atomic": ["a"]}}),
    "set": (CUSTOM, {"spec": {"set": []}}),
    "map": (CUSTOM, {"spec": {"map": None}}),
    "field without a schema": (CUSTOM, {"spec": {"free": {"a": []}}}),
    "null": (CUSTOM, {"spec": {"none": "x"}}),
    "empty list": (CUSTOM, {"spec": {"list": ["x"]}}),
    "whole spec": (CUSTOM, {"spec": None}),
}


def content(live: JsonObject) -> Document:
    labels = {key: live["metadata"].get(key) for key in ("labels", "annotations")}
    return {**{key: value for key, value in live.items() if key not in {"metadata", "status"}}, **labels}


async def deleted(applier: Applier, inventory: Collection[InventoryEntry]) -> bool:
    return not (await applier.delete(inventory)).inventory


@pytest.mark.parametrize("what", CHANGES)
async def test_what_somebody_empties_is_back(client: Client, what: str) -> None:
    wanted, patch = CHANGES[what]
    objects: tuple[KubernetesObject, ...] = parsed(as_text(*([CRD] if wanted is CUSTOM else []), wanted))
    applier = Applier(client, field_manager="applier")
    first = await applier.apply(objects)
    first.raise_first_failure()
    before = first.outcomes[-1]
    assert before.live is not None
    resource = await client.mapper.resource(wanted["apiVersion"], wanted["kind"])
    namespace = before.entry.namespace or None
    await client.merge_patch(resource, before.entry.name, patch, namespace, field_manager="kubectl-edit")

    second = await applier.apply(objects, first.inventory)
    third = await applier.apply(objects, first.inventory)

    after = second.outcomes[-1]
    assert (after.action, after.error) == ("changed", None)
    assert after.live is not None
    assert content(after.live) == content(before.live)
    assert third.outcomes[-1].action == "unchanged"
    await eventually(lambda: deleted(applier, first.inventory), what="the objects are gone")
