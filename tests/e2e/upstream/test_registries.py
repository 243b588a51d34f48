"""A registry that asks for a login."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import OLD, Module
from tests.e2e.upstream.product import KCP, Product
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog
from tests.registries import NAME, PASSWORD, NoRegistry, push, real_registry

LOGIN = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
LABELS = {f"{names.GROUP}/oci-registry-cred": "test-operator"}


@pytest_asyncio.fixture(loop_scope="session")
async def registry(tmp_path: Path) -> AsyncIterator[str]:
    """A real registry that asks for a login."""
    try:
        async with real_registry(tmp_path, private=True) as host:
            yield host
    except NoRegistry as error:
        pytest.skip(str(error))


async def test_oci_registry_credentials_secret(world: Product, registry: str) -> None:
    async with world.offered(Module(name="private"), OLD, regular=OLD) as module:
        (document,) = module.templates(world.layers, OLD)
        component = document["spec"]["descriptor"]["component"]
        (resource,) = component["resources"]
        repository = f"modules/component-descriptors/{component['name']}"
        await push(registry, repository, world.layers.blobs[resource["access"]["localReference"]], private=True)
        component["repositoryContexts"][0]["baseUrl"] = f"http://{registry}/modules"
        await put_in_catalog(world.kcp, document)
        await world.enable(module)
        refused = await world.manifest_is(module, State.ERROR)
        assert any("credentials" in each.message for each in refused.status.conditions)
        config = msgspec.json.encode({"auths": {f"http://{registry}": {"auth": LOGIN}}})
        secret = {
            "metadata": {"name": "private-registry", "labels": LABELS},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        }
        await world.kcp.create(SECRETS, secret, KCP, field_manager="operator")
        resource["labels"] = [{"name": f"{names.GROUP}/oci-registry-cred", "value": LABELS, "version": "v1"}]
        await put_in_catalog(world.kcp, document)
        await world.installed(module)
        await world.runs(module, OLD)
        manifest = await world.manifest(module)
        assert manifest is not None
        assert registry in bytes(manifest.spec.install.source).decode()
    await world.kcp.delete(SECRETS, "private-registry", KCP)
