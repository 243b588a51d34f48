"""What a webhook or policy of a real cluster denies, with a code that means something else of the server's own."""

import base64
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_runtime import Applier, Client, Forbidden, JsonObject, KubeError
from kube_runtime import parse_objects as parsed
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CONFIG_MAPS
from tests.serving import serving
from tests.waiting import eventually
from tests.watcher_process import CA, write_leaf

ADMISSION = "admissionregistration.k8s.io/v1"
ROLE_BINDING = "rbac.authorization.k8s.io/v1"
LABELS = {"owned-by": "the-tests"}
CODES = {401: "Unauthorized", 404: "NotFound", 409: "AlreadyExists", 429: "TooManyRequests"}


def applier(client: Client) -> Applier:
    return Applier(client, field_manager="applier", labels=LABELS)


def selected(namespace: str, resource: str, *operations: str, group: str = "") -> dict[str, Any]:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}
    return {"selector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, "rules": [rule]}


def webhook(name: str, host: str, selector: JsonObject, rules: list[JsonObject]) -> JsonObject:
    bundle = base64.b64encode(CA.certificate_pem).decode()
    called = {
        "name": "denies.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "namespaceSelector": selector,
        "clientConfig": {"url": f"https://{host}/", "caBundle": bundle},
        "rules": rules,
    }
    kind = "ValidatingWebhookConfiguration"
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": [called]}


def policy(name: str, selector: JsonObject, rules: list[JsonObject], **validation: str) -> list[JsonObject]:
    constraints = {"namespaceSelector": selector, "resourceRules": rules}
    spec = {"matchConstraints": constraints, "validations": [{"expression": "false", **validation}]}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": ADMISSION, "kind": f"ValidatingAdmissionPolicy{part}", "metadata": {"name": name}, "spec": each}
        for part, each in (("", spec), ("Binding", bound))
    ]


@asynccontextmanager
async def in_force(
    client: Client, documents: list[JsonObject], denied: Callable[[], Coroutine[Any, Any, object]]
) -> AsyncIterator[None]:
    """Have something deny requests until the end; `denied` is one of them, as a dry run."""

    async def denies() -> bool:
        try:
            await denied()
        except KubeError:
            return True
        return False

    made = Applier(client, field_manager="denials")
    brought = await made.apply(parsed(as_text(*documents)))
    brought.raise_first_failure()
    try:
        await eventually(denies, what="requests are denied")
        yield
    finally:
        await made.delete(brought.inventory)


@pytest.mark.parametrize("details", [{"name": "other", "kind": "configmaps"}, None], ids=["details", ""])
@pytest.mark.parametrize("code", CODES)
async def test_object_that_may_not_be_deleted_is_not_gone_whatever_the_code(
    client: Client, namespace: str, tmp_path: Path, code: int, details: JsonObject | None
) -> None:
    status = {"code": code, "reason": CODES[code], "message": 'configmaps "other": no', "details": details}

    async def deny(request: web.Request) -> web.Response:
        review = await request.json()
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_leaf(tmp_path, "denies", "localhost"))
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": namespace}}
    applied = await applier(client).apply(parsed(as_text(wanted)))

    async def written() -> None:
        await client.apply(CONFIG_MAPS, "probe", {}, namespace, field_manager="probe", dry_run=True)

    matched = selected(namespace, "configmaps", "CREATE", "DELETE")
    async with serving(deny, context, name="localhost") as host:
        configuration = webhook(f"denies-{namespace}", host, matched["selector"], matched["rules"])
        async with in_force(client, [configuration], written):
            removed = await applier(client).delete(applied.inventory)

    (failed,) = removed.failed
    denial = 'admission webhook "denies.example.com" denied the request: configmaps "other": no'
    assert (type(failed.cause), failed.error) == (Forbidden, f"{denial} ({code} {CODES[code]})")
    assert removed.inventory == applied.inventory
    assert (await client.get(CONFIG_MAPS, "kept", namespace))["metadata"]["name"] == "kept"


async def test_object_that_a_policy_protects_is_not_deleted_to_be_changed(client: Client, namespace: str) -> None:
    def binding(**labels: str) -> str:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        metadata = {"name": "kept", "namespace": namespace, "labels": labels}
        return as_text({"apiVersion": ROLE_BINDING, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference})

    resource = await client.mapper.resource(ROLE_BINDING, "RoleBinding")
    applied = await applier(client).apply(parsed(binding()))

    async def written() -> None:
        patch = {"metadata": {"labels": {"x": "y"}}}
        await client.merge_patch(resource, "kept", patch, namespace, field_manager="probe", dry_run=True)

    before = await client.get(resource, "kept", namespace)
    matched = selected(namespace, "rolebindings", "CREATE", "UPDATE", group="rbac.authorization.k8s.io")
    why = "role bindings cannot be changed here"
    documents = policy(f"denies-{namespace}", matched["selector"], matched["rules"], message=why)
    async with in_force(client, documents, written):
        refused = await applier(client).apply(parsed(binding(version="2")), applied.inventory)

    assert why in str(refused.failed[0].error)
    assert await client.get(resource, "kept", namespace) == before
