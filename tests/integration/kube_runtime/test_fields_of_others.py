"""Fields of applied objects that other controllers fill in, or that commands have written before."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_runtime import Applier, ApplyMemory, Client, InventoryEntry, JsonObject, Resource
from kube_runtime import parse_objects as parsed
from kyma_certs import create_ca
from tests.integration.kube_runtime.things import as_text, definition
from tests.kinds import CLUSTER_ROLES, CRDS, DEPLOYMENTS, SECRETS, WEBHOOKS

QUOTAS: Resource[JsonObject] = Resource.dynamic("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)
Document = dict[str, Any]
CA = base64.b64encode(create_ca("a", lifetime=timedelta(days=1), now=datetime.now(UTC)).certificate_pem).decode()
INJECTOR = "cert-manager-cainjector"
INJECT = {"cert-manager.io/inject-ca-from": "a/b"}


def applier(client: Client) -> Applier:
    return Applier(client, field_manager="applier", former_managers=["former"])


async def apply(client: Client, *documents: Document, inventory: tuple[InventoryEntry, ...] = ()) -> None:
    """Apply documents as a process that has just started."""
    (await applier(client).apply(parsed(as_text(*documents)), inventory)).raise_first_failure()


def webhook(name: str, *, annotations: Document | None = None, **client_config: str) -> Document:
    hook = {
        "name": "v.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/", **client_config},
        "rules": [],
    }
    metadata = {"name": name, "annotations": annotations or {}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [hook],
    }


async def ca_of(client: Client, name: str) -> str | None:
    hooks = (await client.get(WEBHOOKS, name))["webhooks"]
    found: str | None = hooks[0]["clientConfig"].get("caBundle")
    return found


@pytest.mark.parametrize("placeholder", [{}, {"caBundle": ""}, {"caBundle": "Cg=="}, {"caBundle": "Lg=="}], ids=str)
async def test_injected_ca_stays_where_the_document_has_a_placeholder(
    client: Client, namespace: str, placeholder: Document
) -> None:
    wanted = webhook(namespace, **placeholder)
    await apply(client, wanted)
    injected = webhook(namespace, caBundle=CA)["webhooks"]
    await client.merge_patch(WEBHOOKS, namespace, {"webhooks": injected}, field_manager=INJECTOR)

    await apply(client, wanted)
    assert await ca_of(client, namespace) == CA
    await client.delete(WEBHOOKS, namespace)


async def test_ca_of_the_document_replaces_another(client: Client, namespace: str) -> None:
    await apply(client, webhook(namespace, caBundle=CA))
    other = webhook(namespace, caBundle="Cg==")["webhooks"]
    await client.merge_patch(WEBHOOKS, namespace, {"webhooks": other}, field_manager="user")

    await apply(client, webhook(namespace, caBundle=CA))
    assert await ca_of(client, namespace) == CA
    await client.delete(WEBHOOKS, namespace)


async def test_ca_of_the_document_gives_way_to_one_that_is_to_be_injected(client: Client, namespace: str) -> None:
    wanted = webhook(namespace, annotations=INJECT, caBundle=CA)
    injected = base64.b64encode(base64.b64decode(CA) * 2).decode()
    await apply(client, wanted)
    hooks = webhook(namespace, caBundle=injected)["webhooks"]
    await client.merge_patch(WEBHOOKS, namespace, {"webhooks": hooks}, field_manager=INJECTOR)

    await apply(client, wanted)
    assert await ca_of(client, namespace) == injected
    await client.delete(WEBHOOKS, namespace)


async def test_injected_ca_of_a_conversion_stays(client: Client, namespace: str) -> None:
    suffix = namespace[-8:]
    wanted = definition(f"gadgets{suffix}", f"Gadget{suffix}")
    service = {"name": "a", "namespace": "b"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service, "caBundle": "Cg=="}}
    wanted["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    await apply(client, wanted)
    name = wanted["metadata"]["name"]
    patch = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": CA}}}}}
    await client.merge_patch(CRDS, name, patch, field_manager=INJECTOR)

    await apply(client, wanted)

    live = await client.get(CRDS, name)
    assert live["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == CA


@pytest.mark.parametrize("in_document", [{"rules": []}, {}], ids=["empty", "left out"])
async def test_rules_of_an_aggregated_role_stay(client: Client, namespace: str, in_document: Document) -> None:
    selectors = [{"matchLabels": {"aggregate": namespace}}]
    wanted = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": namespace},
        "aggregationRule": {"clusterRoleSelectors": selectors},
        **in_document,
    }
    await apply(client, wanted)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    filled = {key: value for key, value in wanted.items() if key != "aggregationRule"} | {"rules": rules}
    await client.apply(CLUSTER_ROLES, namespace, filled, field_manager="clusterrole-aggregation-controller")

    await apply(client, wanted)

    assert (await client.get(CLUSTER_ROLES, namespace))["rules"] == rules


def secret(namespace: str, **content: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}, **content}


async def data_of(client: Client, namespace: str) -> Document:
    data: Document = (await client.get(SECRETS, "s", namespace)).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def test_key_that_leaves_the_texts_of_a_secret_goes(client: Client, namespace: str) -> None:
    await apply(client, secret(namespace, stringData={"a": "one", "b": "two"}))
    assert await data_of(client, namespace) == {"a": "one", "b": "two"}

    await apply(client, secret(namespace, stringData={"a": "one"}))

    assert await data_of(client, namespace) == {"a": "one"}


async def test_text_of_a_secret_counts_before_its_data(client: Client, namespace: str) -> None:
    await apply(client, secret(namespace, data={"a": "b25l", "b": "b25l"}, stringData={"a": "two"}))
    assert await data_of(client, namespace) == {"a": "two", "b": "one"}


@pytest.mark.parametrize("manager", ["applier", "former"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
async def test_key_that_was_applied_as_text_before_goes(
    client: Client, namespace: str, manager: str, is_known: bool
) -> None:
    texts = secret(namespace, stringData={"a": "one", "b": "two"})
    await client.apply(SECRETS, "s", texts, namespace, field_manager=manager)
    await client.merge_patch(SECRETS, "s", {"data": {"users": "b25l"}}, namespace, field_manager="user")
    entry = InventoryEntry("", "v1", "Secret", namespace, "s")

    await apply(client, secret(namespace, stringData={"a": "one"}), inventory=(entry,) if is_known else ())

    gone = {"b"} if is_known or manager == "former" else set()
    assert await data_of(client, namespace) == {
        key: value for key, value in {"a": "one", "b": "two", "users": "one"}.items() if key not in gone
    }


async def test_unchanged_secret_of_texts_is_not_written_by_a_new_process(client: Client, namespace: str) -> None:
    document = secret(namespace, stringData={"a": "one"})
    await apply(client, document)
    before = await client.get(SECRETS, "s", namespace)

    objects = parsed(as_text(document))
    result = await applier(client).apply(objects, [InventoryEntry("", "v1", "Secret", namespace, "s")])

    assert [each.action for each in result.outcomes] == ["unchanged"]
    assert await client.get(SECRETS, "s", namespace) == before


def deployment(namespace: str, *containers: str, **labels: str) -> Document:
    pod = {"containers": [{"name": each, "image": "x:1"} for each in containers]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


def containers_of(live: JsonObject) -> list[str]:
    return [each["name"] for each in live["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "new"])
@pytest.mark.parametrize("manager", ["kubectl-client-side-apply", "kubectl-create", "helm"])
async def test_container_of_a_version_that_a_command_installed_goes(
    client: Client, namespace: str, manager: str, is_recorded: bool
) -> None:
    before = await client.create(
        DEPLOYMENTS, deployment(namespace, "c", "dropped", users="own"), namespace, field_manager=manager
    )
    inventory = (InventoryEntry("apps", "v1", "Deployment", namespace, "d"),) if is_recorded else ()

    await apply(client, deployment(namespace, "c"), inventory=inventory)

    live = await client.get(DEPLOYMENTS, "d", namespace)
    assert containers_of(live) == ["c"]
    assert live["metadata"]["labels"] == {"users": "own"}
    assert live["metadata"]["uid"] == before["metadata"]["uid"]


async def test_container_that_was_applied_by_kubectl_on_the_servers_side_goes(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENTS, "d", deployment(namespace, "c", "dropped"), namespace, field_manager="kubectl")
    await apply(client, deployment(namespace, "c"))
    assert containers_of(await client.get(DEPLOYMENTS, "d", namespace)) == ["c"]


@pytest.mark.parametrize("manager", ["kubectl-client-side-apply", "kubectl-edit"])
async def test_container_that_a_user_adds_to_an_applied_object_stays(
    client: Client, namespace: str, manager: str
) -> None:
    await apply(client, deployment(namespace, "c"))
    spec = deployment(namespace, "c", "users")["spec"]
    await client.merge_patch(DEPLOYMENTS, "d", {"spec": spec}, namespace, field_manager=manager)
    inventory = (InventoryEntry("apps", "v1", "Deployment", namespace, "d"),)

    await apply(client, deployment(namespace, "c", version="2"), inventory=inventory)

    assert containers_of(await client.get(DEPLOYMENTS, "d", namespace)) == ["c", "users"]


async def test_replicas_of_an_autoscaler_stay_when_a_command_had_installed_the_object(
    client: Client, namespace: str
) -> None:
    installed = deployment(namespace, "c")
    installed["spec"]["replicas"] = 2
    await client.create(DEPLOYMENTS, installed, namespace, field_manager="kubectl-client-side-apply")
    scaled = {"spec": {"replicas": 5}}
    await client.merge_patch(DEPLOYMENTS, "d", scaled, namespace, subresource="scale", field_manager="autoscaler")

    await apply(client, deployment(namespace, "c"))

    assert (await client.get(DEPLOYMENTS, "d", namespace))["spec"]["replicas"] == 5


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_value_that_was_changed_and_changed_back_goes_with_the_document(
    client: Client, namespace: str, *, is_restarted: bool
) -> None:
    """Who changed it owns it alone then, until a value is applied that the API server writes in another way."""
    memory, inventory = ApplyMemory(), (InventoryEntry("", "v1", "ResourceQuota", namespace, "q"),)

    async def bring(**hard: str) -> None:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace}}
        by = Applier(client, field_manager="applier", memory=ApplyMemory() if is_restarted else memory)
        (await by.apply(parsed(as_text({**quota, "spec": {"hard": hard}})), inventory)).raise_first_failure()

    await bring(services="1", pods="1000m")
    for value in ("2", "1"):
        await client.merge_patch(QUOTAS, "q", {"spec": {"hard": {"pods": value}}}, namespace, field_manager="user")
    await bring(services="1", pods="1000m")
    await bring(services="1")
    assert (await client.get(QUOTAS, "q", namespace))["spec"]["hard"] == {"services": "1"}
