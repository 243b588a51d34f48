"""A registry on loopback with the layers of modules, and the entries of the catalog that name them."""

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from lifecycle_manager_api import names

Document = dict[str, Any]


@asynccontextmanager
async def serve_layers(layers: Iterable[bytes]) -> AsyncIterator[str]:
    """Serve layers as a registry does; give its address."""
    by_digest = {digest_of(each): each for each in layers}

    async def answer(request: web.Request) -> web.Response:
        layer = by_digest.get(request.match_info["digest"])
        return web.Response(status=404) if layer is None else web.Response(body=layer)

    application = web.Application()
    application.add_routes([web.get("/v2/{repository:.*}/blobs/{digest}", answer)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/modules"
    finally:
        await runner.cleanup()


def entry(version: str, kind: str, name: str, spec: Document) -> Document:
    """Return an entry of the catalog, or another object of the control plane."""
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE}
    return {"apiVersion": f"{names.GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def template_specs(module: str, layers: Mapping[str, bytes], registry: str) -> dict[str, Document]:
    """Return the specs of a module's ModuleTemplates by their versions, each with its layer."""
    return {version: _template_spec(module, version, layer, registry) for version, layer in layers.items()}


def _template_spec(module: str, version: str, layer: bytes, registry: str) -> Document:
    component = {
        "name": f"kyma-project.io/module/{module}",
        "version": version,
        "repositoryContexts": [{"baseUrl": registry, "type": "ociRegistry"}],
        "resources": [{"name": "raw-manifest", "access": {"type": "localOciBlob", "localReference": digest_of(layer)}}],
    }
    descriptor = {"meta": {"schemaVersion": "v2"}, "component": component}
    return {"moduleName": module, "version": version, "descriptor": descriptor}


def digest_of(content: bytes) -> str:
    """Return the digest by which a registry knows a layer."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
