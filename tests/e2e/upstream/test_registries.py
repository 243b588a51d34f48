"""A registry that asks for a login."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import names
from tests.e2e.upstream.modules import OLD, Module
from tests.e2e.upstream.product import KCP, Product
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog
from tests.registries import BlobServer

LOGIN = base64.b64encode(b"puller:secret").decode()
LABELS = {f"{names.GROUP}/oci-registry-cred": "test-operator"}


@asynccontextmanager
async def private_registry(layers: BlobServer) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == f"Basic {LOGIN}":
            return await layers.answer(request)
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="modules"'})

    application = web.Application()
    application.add_routes([web.get("/v2/{path:.*}", answer)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_oci_registry_credentials_secret(world: Product) -> None:
    async with private_registry(world.layers) as host:
        config = msgspec.json.encode({"auths": {f"http://{host}": {"auth": LOGIN}}})
        secret = {
            "metadata": {"name": "private-registry", "labels": LABELS},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        }
        await world.kcp.create(SECRETS, secret, KCP, field_manager="operator")
        async with world.offered(Module(name="private"), OLD, regular=OLD) as module:
            (document,) = module.templates(world.layers, OLD)
            component = document["spec"]["descriptor"]["component"]
            component["repositoryContexts"][0]["baseUrl"] = f"http://{host}/modules"
            labels = [{"name": f"{names.GROUP}/oci-registry-cred", "value": LABELS, "version": "v1"}]
            component["resources"][0]["labels"] = labels
            await put_in_catalog(world.kcp, document)
            await world.enable(module)
            await world.installed(module)
            manifest = await world.manifest(module)
            assert manifest is not None
            assert host in bytes(manifest.spec.install.source).decode()
        await world.kcp.delete(SECRETS, "private-registry", KCP)
