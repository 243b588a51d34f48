"""Modules in the sizes of real ones on a real API server, from private registries too: nothing is left, nothing foreign
is touched."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_runtime import Client, InventoryEntry, KindUnknown, NotFound
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.object_set.inventory import inventory_of
from lifecycle_manager_api import names
from tests.kinds import CONFIG_MAPS
from tests.manifest_clusters import Modules
from tests.modules import CORE_OBJECTS, Document, as_text, operator
from tests.registries import NAME, PASSWORD, NoRegistry, blob_server, packed, push, real_registry

SKR = names.SKR_NAMESPACE


async def there(skr: Client, entry: InventoryEntry) -> bool:
    try:
        resource = await skr.mapper.resource(entry.api_version, entry.kind)
        await skr.get(resource, entry.name, entry.namespace or None)
    except (KindUnknown, NotFound):
        return False
    return True


async def brought(world: Modules) -> tuple[InventoryEntry, ...]:
    manifest = await world.manifest()
    assert manifest is not None
    return inventory_of(manifest)


def manager(module: str) -> Document:
    """Return what runs a module where nothing runs: a Service is ready when it is there."""
    return {"group": "", "version": "v1", "kind": "Service", "name": f"{module}-manager", "namespace": SKR}


@pytest.mark.parametrize(
    ("module", "config_maps", "properties"),
    [("alpha", 0, 4), ("bravo", 4, 40), ("charlie", 14, 400), ("delta", 24, 1350), ("echo", 34, 40)],
)
async def test_module_of_any_size_comes_changes_and_goes(
    world: Modules, module: str, config_maps: int, properties: int
) -> None:
    foreign = {"metadata": {"name": f"{module}-of-a-user"}, "data": {"keep": "me"}}
    await world.skr.create(CONFIG_MAPS, foreign, SKR, field_manager="user")
    old = operator(module, "1.0.0", config_maps=config_maps, properties=properties)
    new = operator(module, "1.1.0", config_maps=config_maps // 2, properties=properties + 1)
    if module == "delta":
        assert len(as_text(old[:1])) > 500_000
    for version, size in ((old, CORE_OBJECTS + config_maps), (new, CORE_OBJECTS + config_maps // 2)):
        await world.want(version, manager=manager(module))
        await world.reconcile()
        assert await world.state() == ("Ready", "ModuleReady")
        entries = await brought(world)
        assert len(entries) == size
        assert all([await there(world.skr, entry) for entry in entries])
    await world.delete()
    await world.reconcile_until_gone()
    assert not any([await there(world.skr, entry) for entry in entries])
    assert (await world.skr.get(CONFIG_MAPS, f"{module}-of-a-user", SKR))["data"] == {"keep": "me"}


async def test_private_registry_is_asked_with_the_secret_that_the_manifest_selects(
    world: Modules, tmp_path: Path
) -> None:
    content = packed({"module.yaml": as_text(operator("foxtrot", "1.0.0")[-1:])})
    try:
        async with real_registry(tmp_path, private=True) as host:
            digest = await push(host, "modules/component-descriptors/foxtrot", content, private=True)
            source = {"type": "oci-ref", "repo": f"http://{host}/modules", "name": "foxtrot", "ref": digest}
            config: Document = {"credSecretSelector": {"matchLabels": {"registry": "modules"}}}
            await world.want([], install={"name": "raw-manifest", "source": source}, config=config)
            await world.reconcile()
            assert await world.state() == ("Error", "CredentialsInvalid")
            assert "registry=modules" in (await world.condition()).message

            await create_login(world, host, "wrong")
            await world.restart()
            await world.reconcile()
            assert await world.state() == ("Error", "RegistryAccessRefused")

            await world.kcp.delete(SECRETS, "login", names.KCP_NAMESPACE)
            await create_login(world, host, PASSWORD)
            await world.restart()
            await world.reconcile()
            assert await world.state() == ("Ready", "ModuleReady")
    except NoRegistry as error:
        pytest.skip(str(error))
    finally:
        await world.registries.close()
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None


async def create_login(world: Modules, host: str, password: str) -> None:
    entry = {"auth": base64.b64encode(f"{NAME}:{password}".encode()).decode()}
    content = msgspec.json.encode({"auths": {f"http://{host}": entry}})
    document: dict[str, Any] = {
        "metadata": {"name": "login", "labels": {"registry": "modules"}},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(content).decode()},
    }
    await world.kcp.create(SECRETS, document, names.KCP_NAMESPACE, field_manager="test")


async def test_layer_with_nothing_in_it_is_refused_and_the_module_can_go(world: Modules) -> None:
    """A version of nothing would prune what the module has."""
    async with blob_server() as server:
        digest = server.hold(packed({"README.md": "no objects", "LICENSE": "none"}))
        source = {"type": "oci-ref", "repo": f"http://{server.host}/modules", "name": "golf", "ref": digest}
        await world.want([], install={"name": "raw-manifest", "source": source})
        await world.reconcile()
    await world.registries.close()
    assert await world.state() == ("Error", "ObjectsInvalid")
    assert await brought(world) == ()
    await world.delete()
    await world.reconcile()
    assert await world.manifest() is None


async def test_text_means_what_it_means_to_kubectl(world: Modules) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: kyma-system\n  name: "
    documents = (
        f"{head}labels\n  labels:\n    app.kubernetes.io/name: first\n    app.kubernetes.io/name: second\n",
        f"{head}twice\ndata: {{a: first}}\n",
        f"{head}twice\ndata: {{a: second}}\n".replace("  namespace: kyma-system\n", ""),
        "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: item}\n",
        f'\ufeff{head}last\ndata:\n  a: >\n    jwtHandler: "istio"',
    )
    await world.want_text("---\n".join(documents))
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    assert (await world.condition("Resources")).message == (
        "4 objects are there"
        "; document 0: line 8: the key 'app.kubernetes.io/name' stands there again; the last one counts"
        "; document 2: ConfigMap twice (v1) stands in document 1 already; the first one counts"
    )
    found = {each: await world.skr.get(CONFIG_MAPS, each, SKR) for each in ("labels", "twice", "item", "last")}
    assert found["labels"]["metadata"]["labels"]["app.kubernetes.io/name"] == "second"
    assert found["twice"]["data"] == {"a": "first"}
    assert found["last"]["data"] == {"a": 'jwtHandler: "istio"\n'}
    for _ in range(2):
        await world.restart()
        await world.reconcile()
    after = await world.skr.get(CONFIG_MAPS, "twice", SKR)
    assert after["metadata"]["resourceVersion"] == found["twice"]["metadata"]["resourceVersion"]


async def test_text_of_json_is_applied_with_all_its_escapes(world: Modules) -> None:
    thing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "js"},
        "data": {"a": "\U0001f600 \x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff\\\x85\0"},
    }
    await world.want_text(json.dumps(thing))
    await world.reconcile()
    assert (await world.skr.get(CONFIG_MAPS, "js", SKR))["data"] == thing["data"]
