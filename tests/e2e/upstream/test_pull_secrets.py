"""Credentials for images: those of the fleet, and those of the module `deployer`."""

import base64
from typing import Any

from kube_runtime import NotFound, NotServed, Resource
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import OLD, Document, Module
from tests.e2e.upstream.product import GLOBAL_ACCOUNT, KCP, PULL_SECRET, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.waiting import eventually

KEY = ".dockerconfigjson"
NOTHING = base64.b64encode(b'{"auths": {}}').decode()
DATA = base64.b64encode(b'{"auths": {"registry.example.com": {"username": "test"}}}').decode()
ROTATED = base64.b64encode(b'{"auths": {"registry.example.com": {"username": "updated"}}}').decode()


def secret(name: str, data: str = NOTHING, **metadata: Any) -> Document:
    metadata = {"name": name, **metadata}
    kind = "kubernetes.io/dockerconfigjson"
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": {KEY: data}}


def asking(name: str) -> Document:
    return secret(name, namespace=SKR, annotations={names.INJECT_DATA_FROM_KCP: "true"})


async def data_is(world: Product, name: str, data: str) -> None:
    async def is_so() -> bool:
        try:
            return (await world.skr.get(SECRETS, name, SKR)).data[KEY] == data
        except (NotFound, NotServed):
            return False  # while it is replaced

    await eventually(is_so, what=f"{name} has the data")


async def pod_of(world: Product, resource: Resource[Document], name: str) -> Document:
    pod: Document = (await world.skr.get(resource, name, SKR))["spec"]["template"]["spec"]
    return pod


async def test_skr_image_pull_secret_sync(world: Product) -> None:
    assert (await world.skr.get(SECRETS, PULL_SECRET, SKR)).data == {KEY: "e30="}
    condition = await world.condition("SKRImagePullSecretSync")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "Ready")
    reference, deployments = {"name": PULL_SECRET}, WORKLOADS["Deployment"]
    assert (await pod_of(world, deployments, "skr-webhook"))["imagePullSecrets"] == [reference]
    async with world.offered(Module(name="pulled")) as module:
        await world.enable(module)
        await world.installed(module)
        pod = await pod_of(world, deployments, module.operator(OLD))
        assert pod["imagePullSecrets"] == [reference]
        assert {"name": "SKR_IMG_PULL_SECRET", "value": PULL_SECRET} in pod["containers"][0]["env"]


async def test_rotated_image_pull_secret_replaces_one_that_was_made_immutable(world: Product) -> None:
    await world.skr.merge_patch(SECRETS, PULL_SECRET, {"immutable": True}, SKR, field_manager="user")
    await world.kcp.merge_patch(SECRETS, PULL_SECRET, {"data": {KEY: DATA}}, KCP, field_manager="operator")
    await data_is(world, PULL_SECRET, DATA)
    await world.kyma_is(State.READY)


async def test_deployer_module_image_pull_secret_injection(world: Product) -> None:
    source = secret("image-pull-secret", DATA, labels={names.MODULE_NAME: "deployer"})
    await world.kcp.create(SECRETS, source, KCP, field_manager="operator")
    own = secret("non-inject-pull-secret", namespace=SKR)
    deployer = Module(name="deployer", more=(asking("image-pull-secret"), own))
    everybody = {"kymaSelector": {"matchLabels": {names.GLOBAL_ACCOUNT_ID: GLOBAL_ACCOUNT}}}
    async with world.offered(deployer, spec=everybody, regular=OLD) as module:
        await world.enable(module)
        await world.installed(module)
        await data_is(world, "image-pull-secret", DATA)
        await world.kcp.merge_patch(SECRETS, "image-pull-secret", {"data": {KEY: ROTATED}}, KCP)
        await data_is(world, "image-pull-secret", ROTATED)
        await data_is(world, "non-inject-pull-secret", NOTHING)
        for labels in ({names.MODULE_NAME: "not-deployer"}, {names.MODULE_NAME: None}):
            await world.kcp.merge_patch(SECRETS, "image-pull-secret", {"metadata": {"labels": labels}}, KCP)
            manifest = await world.manifest_is(module, State.ERROR)
            assert manifest.status.last_operation is not None
            assert "module-name=deployer" in manifest.status.last_operation.operation
        await world.kcp.delete(SECRETS, "image-pull-secret", KCP)
        await world.manifest_is(module, State.ERROR)


async def test_block_non_deployer_module_image_pull_secret_injection(world: Product) -> None:
    source = secret("other-pull-secret", DATA, labels={names.MODULE_NAME: "not-deployer"})
    await world.kcp.create(SECRETS, source, KCP, field_manager="operator")
    async with world.offered(Module(name="not-deployer", more=(asking("other-pull-secret"),))) as module:
        await world.enable(module)
        await world.installed(module)
        await data_is(world, "other-pull-secret", NOTHING)
    await world.kcp.delete(SECRETS, "other-pull-secret", KCP)
