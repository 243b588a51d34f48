"""Applies that a real API server refuses for what an object is: what others added, what may not be changed."""

import time
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kube_runtime import ApiError, Applier, ApplyResult, Client, Invalid, InventoryEntry, JsonObject, NotFound
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import GROUP, as_text, definition, thing
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

Document = dict[str, Any]
LABELS = {"owned-by": "the-tests"}
RECREATE = "example.com/recreate"
FIXED = "can't be changed once the object exists"
DATA = "deleting it deletes data: do that yourself, or leave the field as it was"
ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"


def document(api_version: str, kind: str, namespace: str = "", name: str = "", **content: Any) -> Document:
    metadata = {"name": name or kind.lower()} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def workload(kind: str, namespace: str, *, container: Document | None = None, pod: Document | None = None) -> Document:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "x:1", **(container or {})}], **(pod or {})},
    }
    return document("apps/v1", kind, namespace, spec={"selector": {"matchLabels": {"app": "x"}}, "template": template})


def applier(client: Client, **options: Any) -> Applier:
    return Applier(client, field_manager="applier", labels=LABELS, recreate_annotation=RECREATE, **options)


async def apply(client: Client, *documents: Document, inventory: Collection[InventoryEntry] = ()) -> ApplyResult:
    return await applier(client).apply(parsed(as_text(*documents)), inventory)


async def live(client: Client, wanted: Document) -> JsonObject:
    resource = await client.mapper.resource(wanted["apiVersion"], wanted["kind"])
    return await client.get(resource, wanted["metadata"]["name"], wanted["metadata"].get("namespace"))


async def edit(client: Client, wanted: Document, patch: Document, field_manager: str = "kubectl-edit") -> JsonObject:
    resource = await client.mapper.resource(wanted["apiVersion"], wanted["kind"])
    metadata = wanted["metadata"]
    return await client.merge_patch(
        resource, metadata["name"], patch, metadata.get("namespace"), field_manager=field_manager
    )


def pod_patch(container: Document, pod: Document | None = None) -> Document:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x:1", **container}], **(pod or {})}}}}


def service(namespace: str, port: int = 80, **more: Any) -> Document:
    ports = [{"name": "http", "port": port, "targetPort": 8080}]
    return document("v1", "Service", namespace, spec={"selector": {"app": "x"}, "ports": ports, **more})


def pdb(namespace: str) -> Document:
    return document("policy/v1", "PodDisruptionBudget", namespace, spec={"minAvailable": 1, "selector": {}})


PORT = {"ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}
PROBE = {"livenessProbe": {"httpGet": {"path": "/", "port": 80}}}
VARIABLE = {"env": [{"name": "A", "value": "1"}]}
VOLUME = {"volumes": [{"name": "v", "configMap": {"name": "a"}}]}
FROM_FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
EDITS: dict[str, tuple[Document, Document]] = {
    "port of a Service": (service(""), {"spec": {"ports": [{"name": "http", "port": 90}]}}),
    "port of a container": (
        workload("Deployment", "", container=PORT),
        pod_patch({"ports": [{"name": "http", "containerPort": 90}]}),
    ),
    "probe": (
        workload("Deployment", "", container=PROBE),
        pod_patch({"livenessProbe": {"exec": {"command": ["true"]}}}),
    ),
    "variable": (workload("DaemonSet", "", container=VARIABLE), pod_patch({"env": [{"name": "A", **FROM_FIELD}]})),
    "volume": (
        workload("StatefulSet", "", pod=VOLUME),
        pod_patch({}, {"volumes": [{"name": "v", "emptyDir": {}}]}),
    ),
    "budget": (pdb(""), {"spec": {"minAvailable": None, "maxUnavailable": 1}}),
}


def placed(wanted: Document, namespace: str) -> Document:
    return {**wanted, "metadata": {**wanted["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("edited", EDITS)
async def test_edit_that_does_not_go_together_with_the_document_is_reverted(
    client: Client, namespace: str, edited: str
) -> None:
    wanted, patch = placed(EDITS[edited][0], namespace), EDITS[edited][1]
    (await apply(client, wanted)).raise_first_failure()
    before = await live(client, wanted)
    await edit(client, wanted, {**patch, "metadata": {"labels": {"users": "own"}}})

    (await apply(client, wanted)).raise_first_failure()

    after = await live(client, wanted)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == {**LABELS, "users": "own"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_edits_in_other_places_stay_when_one_is_reverted(client: Client, namespace: str) -> None:
    wanted = workload("Deployment", namespace, container={**PORT, **VARIABLE})
    (await apply(client, wanted)).raise_first_failure()
    container = {"ports": [{"name": "http", "containerPort": 90}], "env": [*VARIABLE["env"], {"name": "B"}]}
    patch = pod_patch(container)
    patch["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "y:1"})
    await edit(client, wanted, patch)

    (await apply(client, wanted)).raise_first_failure()

    first, second = (await live(client, wanted))["spec"]["template"]["spec"]["containers"]
    assert [each["containerPort"] for each in first["ports"]] == [80]
    assert [each["name"] for each in first["env"]] == ["A", "B"]
    assert second["name"] == "sidecar"


async def test_object_that_a_user_had_before_gets_the_ports_of_the_document(client: Client, namespace: str) -> None:
    resource = await client.mapper.resource("v1", "Service")
    await client.create(resource, service(namespace, 90), namespace, field_manager="kubectl-client-side-apply")

    (await apply(client, service(namespace))).raise_first_failure()

    assert [each["port"] for each in (await live(client, service(namespace)))["spec"]["ports"]] == [80]


@pytest.mark.parametrize("by_user", [False, True], ids=["default", "edited"])
async def test_strategy_without_the_fields_of_the_former_one_is_applied(
    client: Client, namespace: str, by_user: bool
) -> None:
    wanted = workload("Deployment", namespace)
    (await apply(client, wanted)).raise_first_failure()
    if by_user:
        await edit(client, wanted, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}})
    wanted["spec"]["strategy"] = {"type": "Recreate"}

    (await apply(client, wanted)).raise_first_failure()

    assert (await live(client, wanted))["spec"]["strategy"] == {"type": "Recreate"}


async def test_conversion_goes_with_what_was_written_into_it(client: Client, namespace: str) -> None:
    first = definition("converteds", "Converted")
    second = {**first, "spec": {**first["spec"]}}
    config = {"service": {"name": "a", "namespace": namespace}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    first["spec"] |= {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    (await apply(client, first)).raise_first_failure()
    injected = {"webhook": {"clientConfig": {"service": {"path": "/convert"}}}}
    await edit(client, first, {"spec": {"conversion": injected}}, "cainjector")

    (await apply(client, second)).raise_first_failure()

    assert (await live(client, second))["spec"]["conversion"] == {"strategy": "None"}


async def test_what_is_beside_the_refused_field_stays_in_a_section_of_users(client: Client, namespace: str) -> None:
    crd = definition("limiteds", "Limited")
    number = {"type": "integer"}
    limits = {"type": "object", "properties": {"cpu": number}}
    extra = {"type": "object", "properties": {"limits": limits, "note": {"type": "string"}}}
    rule = "!has(self.extra) || !has(self.extra.limits) || self.extra.limits.cpu <= self.most"
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"most": number, "extra": extra},
        "x-kubernetes-validations": [{"rule": rule, "fieldPath": ".extra.limits.cpu"}],
    }
    first, second = (thing("a", namespace, "Limited", most=most) for most in (5, 3))
    (await apply(client, crd, first)).raise_first_failure()
    await edit(client, first, {"spec": {"extra": {"limits": {"cpu": 4}, "note": "mine"}}})

    (await apply(client, second)).raise_first_failure()

    assert (await live(client, second))["spec"] == {"most": 3, "extra": {"note": "mine"}}


async def test_invalid_document_takes_nothing_from_users(client: Client, namespace: str) -> None:
    wanted = service(namespace)
    (await apply(client, wanted)).raise_first_failure()
    edited = await edit(client, wanted, {"spec": {"ports": [{"name": "http", "port": 90}]}})
    wanted["spec"]["ports"].append({"name": "_", "port": 81})

    result = await apply(client, wanted)

    assert [type(each.cause) for each in result.failed] == [Invalid]
    assert await live(client, wanted) == edited


def job(namespace: str, image: str) -> Document:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
    return document("batch/v1", "Job", namespace, spec={"template": {"spec": pod}})


def binding(kind: str, namespace: str, role: str) -> Document:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return document(f"{RBAC}/v1", kind, namespace, f"binding-{namespace or 'of-the-tests'}", roleRef=reference)


def held(kind: str, namespace: str, value: str, **more: Any) -> Document:
    return document("v1", kind, namespace, data={"a": value}, **more)


def recreated(namespace: str) -> dict[str, tuple[Document, Document]]:
    return {
        "Job": (job(namespace, "x:1"), job(namespace, "x:2")),
        "RoleBinding": (binding("RoleBinding", namespace, "a"), binding("RoleBinding", namespace, "b")),
        "ClusterRoleBinding": (binding("ClusterRoleBinding", "", "a"), binding("ClusterRoleBinding", "", "b")),
        "ConfigMap": (held("ConfigMap", namespace, "1", immutable=True), held("ConfigMap", namespace, "2")),
        "Secret": (held("Secret", namespace, "MQ==", immutable=True), held("Secret", namespace, "Mg==")),
        "type of a Secret": (held("Secret", namespace, "MQ=="), held("Secret", namespace, "MQ==", type="x.y/z")),
    }


@pytest.mark.parametrize("kind", recreated(""))
async def test_object_without_a_state_is_created_anew_for_a_field_that_may_not_change(
    client: Client, namespace: str, kind: str
) -> None:
    first, second = recreated(namespace)[kind]
    applied = await apply(client, first)
    applied.raise_first_failure()
    before = await live(client, first)

    (expected,) = await applier(client).difference(parsed(as_text(second)), applied.inventory)
    result = await apply(client, second)

    assert (expected.action, FIXED in (expected.error or "")) == ("recreate", True)

    result.raise_first_failure()
    assert [each.action for each in result.outcomes] == ["created"]
    after = await live(client, second)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    await applier(client).delete(result.inventory)


async def test_object_of_somebody_else_is_not_created_anew(client: Client, namespace: str) -> None:
    first, second = recreated(namespace)["RoleBinding"]
    resource = await client.mapper.resource(f"{RBAC}/v1", "RoleBinding")
    users = await client.create(resource, first, namespace, field_manager="kubectl-create")

    result = await apply(client, second)

    assert [each.error for each in result.failed] == [f"roleRef {FIXED}; delete the object, and it is created anew"]
    assert await live(client, first) == users


@pytest.mark.parametrize("kind", ["RoleBinding", "Deployment"])
async def test_object_that_existed_before_the_set_is_not_created_anew(
    client: Client, namespace: str, kind: str
) -> None:
    first, second = recreated(namespace)["RoleBinding"]
    if kind == "Deployment":
        first, second = workload(kind, namespace), workload(kind, namespace)
        second["metadata"]["annotations"] = {RECREATE: "true"}
        second["spec"]["selector"]["matchLabels"] = second["spec"]["template"]["metadata"]["labels"] = {"app": "y"}
    inventory = (await apply(client, first)).inventory
    before = await live(client, first)

    (expected,) = await applier(client).difference(parsed(as_text(second)))
    objects, found = parsed(as_text(second)), [each.identity for each in inventory]
    result = await applier(client).apply(objects, inventory, found=found)

    assert (expected.action, [each.action for each in result.outcomes]) == ("fail", ["failed"])
    assert str(result.failed[0].error).endswith(f"{FIXED}; delete the object, and it is created anew")
    assert await live(client, first) == before


async def test_object_that_waits_for_finalizers_is_created_anew_once_it_is_gone(client: Client, namespace: str) -> None:
    first, second = recreated(namespace)["RoleBinding"]
    (await apply(client, first)).raise_first_failure()
    await edit(client, first, {"metadata": {"finalizers": ["example.com/wait"]}})

    for _ in range(2):
        result = await apply(client, second)
        assert [each.error for each in result.failed] == [
            "it is deleted to be created anew with another roleRef; waiting until it is gone (409 AlreadyExists)"
        ]
    await edit(client, first, {"metadata": {"finalizers": None}})

    assert [each.action for each in (await apply(client, second)).outcomes] == ["created"]


async def test_document_with_another_fault_deletes_nothing(client: Client, namespace: str) -> None:
    first, second = job(namespace, "x:1"), job(namespace, "x:2")
    (await apply(client, first)).raise_first_failure()
    before = await live(client, first)
    second["spec"]["parallelism"] = -1

    result = await apply(client, second)

    assert [type(each.cause) for each in result.failed] == [Invalid]
    assert await live(client, first) == before


def stateful(namespace: str, service_name: str, **annotations: str) -> Document:
    wanted = workload("StatefulSet", namespace)
    wanted["metadata"]["annotations"] = annotations
    wanted["spec"]["serviceName"] = service_name
    return wanted


async def test_annotation_allows_to_create_an_object_anew(client: Client, namespace: str) -> None:
    (await apply(client, stateful(namespace, "a"))).raise_first_failure()

    refused = await apply(client, stateful(namespace, "b"))
    assert [each.error for each in refused.failed] == [
        f'spec {FIXED}; delete it, or set its annotation {RECREATE}: "true" in the manifest'
    ]

    allowed = await apply(client, stateful(namespace, "b", **{RECREATE: "true"}))
    assert [each.action for each in allowed.outcomes] == ["created"]


def claim(namespace: str, mode: str) -> Document:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    wanted = document("v1", "PersistentVolumeClaim", namespace, spec=spec)
    wanted["metadata"]["annotations"] = {RECREATE: "true"}
    return wanted


@pytest.mark.parametrize("size", ["2Gi", "8Gi"])
async def test_volume_that_a_user_has_expanded_stays_as_large_and_gets_the_rest(
    client: Client, namespace: str, size: str
) -> None:
    wanted, storage_class = claim(namespace, "ReadWriteOnce"), f"expandable-{namespace}"
    wanted["spec"]["storageClassName"] = storage_class
    expandable = document("storage.k8s.io/v1", "StorageClass", name=storage_class, allowVolumeExpansion=True)
    (await apply(client, expandable | {"provisioner": "example.com/none"})).raise_first_failure()
    (await apply(client, wanted)).raise_first_failure()
    await edit(client, wanted, {"spec": {"volumeName": "some"}}, "kube-controller-manager")
    resource = await client.mapper.resource("v1", "PersistentVolumeClaim")
    status = {"status": {"phase": "Bound", "capacity": {"storage": "5Gi"}}}
    await client.merge_patch(resource, wanted["metadata"]["name"], status, namespace, subresource="status")
    await edit(client, wanted, {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
    wanted["metadata"]["labels"] = {"version": "2"}
    wanted["spec"]["resources"]["requests"]["storage"] = size
    made = applier(client)

    first = await made.apply(parsed(as_text(wanted)))
    second = await made.apply(parsed(as_text(wanted)), first.inventory)
    (found,) = await made.difference(parsed(as_text(wanted)), second.inventory)

    assert [each.action for each in (*first.outcomes, *second.outcomes)] == ["changed", "unchanged"]
    assert found.action == "none"
    after = await live(client, wanted)
    assert after["metadata"]["labels"]["version"] == "2"
    assert after["spec"]["resources"]["requests"]["storage"] == ("8Gi" if size == "8Gi" else "5Gi")


def with_volumes(namespace: str, service_name: str) -> Document:
    """Return a StatefulSet whose volumes are deleted with it."""
    wanted = stateful(namespace, service_name, **{RECREATE: "true"})
    wanted["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete"}
    return wanted


@pytest.mark.parametrize("holding", [claim, with_volumes])
async def test_annotation_does_not_allow_to_delete_data(
    client: Client, namespace: str, holding: Callable[[str, str], Document]
) -> None:
    first = holding(namespace, "ReadWriteOnce" if holding is claim else "a")
    second = holding(namespace, "ReadWriteMany" if holding is claim else "b")
    (await apply(client, first)).raise_first_failure()
    before = await live(client, first)

    result = await apply(client, second)

    assert [each.error for each in result.failed] == [f"spec {FIXED}; {DATA}"]
    assert await live(client, first) == before


@pytest.mark.parametrize("kind", ["ConfigMap", "type of a Secret"])
async def test_data_that_a_user_added_is_not_deleted_to_create_an_object_anew(
    client: Client, namespace: str, kind: str
) -> None:
    first, second = recreated(namespace)[kind]
    inventory = (await apply(client, {key: value for key, value in first.items() if key != "immutable"})).inventory
    await edit(client, first, {"data": {"b": "MQ=="}, **({"immutable": True} if kind == "ConfigMap" else {})})
    before = await live(client, first)

    (expected,) = await applier(client).difference(parsed(as_text(second)), inventory)
    result = await apply(client, second)

    assert expected.action == "fail"
    assert [DATA in str(each.error) for each in result.failed] == [True]
    assert await live(client, first) == before


def labelled(namespace: str, labels: Any) -> Document:
    wanted = document("v1", "ConfigMap", namespace)
    wanted["metadata"]["labels"] = labels
    return wanted


UNFIT: dict[str, tuple[Document, str]] = {
    "a key of a list twice": (
        document("v1", "Service", spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}),
        'spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
    ),
    "an unknown field": (document("v1", "ConfigMap", datas={}), "datas: field not declared in schema"),
    "a number as a label": (labelled("", {"a": 1}), "metadata.labels.a: expected string, got 1"),
    "a number in data": (
        document("v1", "ConfigMap", data={"a": 1}),
        "data.a: expected string, got 1",
    ),
    "no base64": (document("v1", "Secret", data={"a": "not base64!"}), "illegal base64 data at input byte 3"),
    "a missing field": (
        document("apps/v1", "Deployment", spec={"replicas": 1}),
        "; ".join(
            (
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            )
        ),
    ),
}


@pytest.mark.parametrize("fault", UNFIT)
async def test_document_that_does_not_fit_its_schema_is_invalid_and_says_where(
    client: Client, namespace: str, fault: str
) -> None:
    wanted, why = UNFIT[fault]

    result = await apply(client, placed(wanted, namespace))

    (failed,) = result.failed
    assert isinstance(failed.cause, Invalid)
    assert failed.error == why
    assert result.inventory == ()


def gate(kind: str, namespace: str, name: str) -> Document:
    """Return an object that makes the server refuse ConfigMaps of a namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    if kind == "ResourceQuota":
        return document("v1", kind, namespace, name, spec={"hard": {"count/configmaps": "0"}})
    if kind == "ValidatingAdmissionPolicy":
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
            "validations": [{"expression": "false"}],
        }
        return document(ADMISSION, kind, name=name, spec=spec)
    webhook = {
        "name": "v.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "namespaceSelector": selector,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
    }
    return document(ADMISSION, kind, name=name, webhooks=[webhook])


async def admits(client: Client, namespace: str) -> bool:
    """Ask the server whether it takes a ConfigMap: it learns of a new or deleted webhook after it stored the change."""
    try:
        asked = held("ConfigMap", namespace, "asked")
        await client.create(CONFIG_MAPS, asked, namespace, field_manager="test", dry_run=True)
    except ApiError:
        return False
    return True


async def refuses(client: Client, namespace: str) -> bool:
    return not await admits(client, namespace)


@pytest.mark.parametrize("kind", ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
async def test_webhook_of_the_version_before_that_refuses_the_new_one_is_pruned(
    client: Client, namespace: str, kind: str
) -> None:
    leftover = document("v1", "ServiceAccount", namespace, "leftover")
    inventory = (await apply(client, gate(kind, namespace, f"gate-{namespace}"), leftover)).inventory
    wanted = held("ConfigMap", namespace, "1")
    await eventually(lambda: refuses(client, namespace))

    first = await apply(client, wanted, inventory=inventory)
    assert {each.entry.kind: each.action for each in first.outcomes} == {
        "ConfigMap": "failed",
        "ServiceAccount": "kept",
        kind: "pruned",
    }
    await eventually(lambda: admits(client, namespace))
    second = await apply(client, wanted, inventory=first.inventory)

    assert {each.entry.kind: each.action for each in second.outcomes} == {
        "ConfigMap": "created",
        "ServiceAccount": "pruned",
    }


async def test_policy_of_a_set_does_not_refuse_the_removal_of_the_set(client: Client, namespace: str) -> None:
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["UPDATE", "DELETE"], "resources": ["guardeds"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    policy = document(ADMISSION, "ValidatingAdmissionPolicy", name="guards", spec=spec)
    bound = {"policyName": "guards", "validationActions": ["Deny"]}
    binding = document(ADMISSION, "ValidatingAdmissionPolicyBinding", name="guards", spec=bound)
    guarded = thing("guarded", namespace, kind="Guarded")
    inventory = (await apply(client, definition("guardeds", "Guarded"), guarded, policy, binding)).inventory

    async def guards() -> bool:
        try:
            await edit(client, guarded, {"spec": {"at": str(time.monotonic())}})
        except Invalid:
            return True
        return False

    async def gone() -> bool:
        nonlocal inventory
        inventory = (await applier(client).delete(inventory)).inventory
        return inventory == ()

    await eventually(guards, what="the policy is in force")
    await eventually(gone, what="the set is gone")


async def test_webhook_that_is_not_ours_any_more_is_not_pruned_although_it_refuses(
    client: Client, namespace: str
) -> None:
    webhook = gate("ValidatingWebhookConfiguration", namespace, f"gate-{namespace}")
    inventory = (await apply(client, webhook)).inventory
    await edit(client, webhook, {"metadata": {"labels": {"owned-by": "somebody"}}})
    await eventually(lambda: refuses(client, namespace))

    await apply(client, held("ConfigMap", namespace, "1"), inventory=inventory)

    assert (await live(client, webhook))["webhooks"]
    resource = await client.mapper.resource(webhook["apiVersion"], webhook["kind"])
    await client.delete(resource, webhook["metadata"]["name"])
    with pytest.raises(NotFound):
        await live(client, webhook)
