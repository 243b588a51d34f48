"""Applies after which a real API server has not all that the document says, and what those that failed leave behind."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kube_runtime import Applier, Client, JsonObject, Resource
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CONFIG_MAPS, OPEN, crd_of
from tests.waiting import eventually

Document = dict[str, Any]
GROUP = "incomplete.example.com"
KINDS: Resource[Document] = Resource.dynamic(GROUP, "v1", "Incomplete", "incompletes", namespaced=True)
TEXT = {"type": "string"}
ITEM = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
FIELDS = {
    "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": ITEM},
    "map": {"type": "object", "additionalProperties": TEXT},
    "none": {**TEXT, "nullable": True},
    "text": TEXT,
    "strict": {"type": "boolean"},
}
RULES = [{"rule": "!has(self.strict) || has(self.items)"}]
SPEC = {"type": "object", "properties": FIELDS, "x-kubernetes-validations": RULES}
CRD = crd_of(GROUP, "Incomplete", schema={"type": "object", "properties": {"spec": SPEC}})
ADMISSION = "admissionregistration.k8s.io/v1"
LABEL = "changed-by-a-policy"
POLICY = {
    "apiVersion": ADMISSION,
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": GROUP},
    "spec": {
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {LABEL: "yes"}},
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["configmaps"],
                }
            ],
        },
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": 'Object{data: {"a": "changed"}}'}}
        ],
    },
}
BINDING = {
    "apiVersion": ADMISSION,
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": GROUP},
    "spec": {"policyName": GROUP},
}


def incomplete(namespace: str, **spec: Any) -> Document:
    metadata = {"name": "some", "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Incomplete", "metadata": metadata, "spec": spec}


def config_map(namespace: str, name: str = "some", **labels: str) -> Document:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "wanted"}}


async def applied(applier: Applier, document: Document) -> JsonObject:
    result = await applier.apply(parsed(as_text(document)))
    result.raise_first_failure()
    live = result.outcomes[0].live
    assert live is not None
    return live


@pytest_asyncio.fixture
async def applier(client: Client) -> AsyncIterator[Applier]:
    definition = Applier(client, field_manager="definition")
    brought = await definition.apply(parsed(as_text(CRD)))
    brought.raise_first_failure()
    yield Applier(client, field_manager="applier")
    await definition.delete(brought.inventory)


@pytest_asyncio.fixture
async def policy(client: Client, namespace: str) -> AsyncIterator[None]:
    applier = Applier(client, field_manager="policy")
    brought = await applier.apply(parsed(as_text(POLICY, BINDING)))
    brought.raise_first_failure()

    async def in_force() -> bool:
        probe = config_map(namespace, "probe", **{LABEL: "yes"})
        live = await client.apply(CONFIG_MAPS, "probe", probe, namespace, field_manager="probe")
        await client.delete(CONFIG_MAPS, "probe", namespace)
        return bool(live["data"]["a"] == "changed")

    await eventually(in_force, what="the policy is in force")
    yield
    await applier.delete(brought.inventory)


async def test_list_that_becomes_empty_is_not_missing(client: Client, namespace: str, applier: Applier) -> None:
    """With the items that are no longer applied, a server removes the list itself."""
    await applied(applier, incomplete(namespace, text="x", items=[{"name": "a"}]))
    emptied = incomplete(namespace, text="x", items=[])

    live = await applied(applier, emptied)

    assert live["spec"] == {"text": "x", "items": []}
    again = await client.apply(KINDS, "some", emptied, namespace, field_manager="applier", force=True)
    assert again["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


async def test_value_that_a_policy_gave_a_former_label_is_that_of_the_document(
    client: Client, namespace: str, policy: None
) -> None:
    """A policy matches by the labels of the object before the write, too."""
    applier = Applier(client, field_manager="applier")
    assert (await applied(applier, config_map(namespace, **{LABEL: "yes"})))["data"] == {"a": "changed"}

    assert (await applied(applier, config_map(namespace)))["data"] == {"a": "wanted"}


async def test_null_that_somebody_removed_is_back_after_a_restart(
    client: Client, namespace: str, applier: Applier
) -> None:
    wanted = incomplete(namespace, text="x", none=None)
    before = await applied(applier, wanted)
    removed = await client.merge_patch(KINDS, "some", {"spec": {"none": None}}, namespace, field_manager="user")
    assert "none" not in removed["spec"]
    restarted = Applier(client, field_manager="applier")

    inventory = await restarted.intended(parsed(as_text(wanted)), ())
    (done,) = (await restarted.apply(parsed(as_text(wanted)), inventory)).outcomes

    assert done.live is not None
    assert done.live["spec"] == before["spec"] == {"text": "x", "none": None}


async def test_map_that_becomes_empty_is_empty_and_takes_nothing_of_a_user(
    client: Client, namespace: str, applier: Applier
) -> None:
    """A server makes a null of it, and refuses that."""
    await applied(applier, incomplete(namespace, map={"a": "b", "c.d/e": "f"}))
    await client.merge_patch(KINDS, "some", {"spec": {"text": "of a user"}}, namespace, field_manager="user")

    live = await applied(applier, incomplete(namespace, map={}))

    assert live["spec"] == {"map": {}, "text": "of a user"}
    owners = {each["manager"]: each["fieldsV1"]["f:spec"] for each in live["metadata"]["managedFields"]}
    assert owners == {"applier": {"f:map": {}}, "user": {"f:text": {}}}
    left = await applied(applier, incomplete(namespace, items=[{"name": "a"}]))
    assert left["spec"] == {"items": [{"name": "a"}], "text": "of a user"}


async def test_spec_that_becomes_empty_is_empty(client: Client, namespace: str) -> None:
    definition = Applier(client, field_manager="definition")
    brought = await definition.apply(parsed(as_text(CRD)))
    labelled = Applier(client, field_manager="applier", labels={"a": "b"})
    await applied(labelled, incomplete(namespace, text="x", map={"a": "b"}))

    assert (await applied(labelled, incomplete(namespace)))["spec"] == {}

    await definition.delete(brought.inventory)


async def test_field_of_a_user_stays_theirs_where_taking_it_over_did_not_help(
    client: Client, namespace: str, applier: Applier
) -> None:
    await applied(applier, incomplete(namespace, strict=True, items=[{"name": "a"}]))
    await client.merge_patch(KINDS, "some", {"spec": {"text": "of a user"}}, namespace, field_manager="user")

    assert (await applier.apply(parsed(as_text(incomplete(namespace, strict=True, items=[]))))).failed

    live = await applied(applier, incomplete(namespace, strict=True, items=[{"name": "b"}]))
    assert live["spec"] == {"strict": True, "items": [{"name": "b"}], "text": "of a user"}
    owners = {each["manager"]: each["fieldsV1"]["f:spec"] for each in live["metadata"]["managedFields"]}
    assert owners["user"] == {"f:text": {}}


async def test_map_of_a_status_that_becomes_empty_is_empty(client: Client, namespace: str) -> None:
    schema = {"type": "object", "properties": {"spec": OPEN, "status": {"type": "object", "properties": FIELDS}}}
    definition = Applier(client, field_manager="definition")
    brought = await definition.apply(parsed(as_text(crd_of(GROUP, "Reporting", schema=schema, has_status=True))))
    reporting = await client.mapper.resource(f"{GROUP}/v1", "Reporting")
    await client.create(reporting, {"metadata": {"name": "some"}}, namespace, field_manager="user")

    for status in ({"text": "x", "map": {"a": "b"}}, {"text": "x", "map": {}}):
        live = await client.apply(
            reporting, "some", {"status": status}, namespace, field_manager="a", force=False, subresource="status"
        )

    assert live["status"] == {"text": "x", "map": {}}
    await definition.delete(brought.inventory)
