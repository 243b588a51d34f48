"""ModuleTemplates and ModuleReleaseMetas in the control plane, created for one test and deleted after it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from kube_runtime import AlreadyExists, Client, Invalid, NotFound, NotServed
from lifecycle_manager.contract.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import as_document, names
from tests import builders
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE


def template(module: str, version: str, **given: Any) -> dict[str, Any]:
    """Return a ModuleTemplate with something to install, as a module team creates it."""
    built = as_document(
        builders.template(module, version, **({"installs": True, "enable_module_config": False} | given))
    )
    return _without_identity(built)


def with_layer(document: dict[str, Any], host: str, digest: str) -> dict[str, Any]:
    """Return a ModuleTemplate whose objects are in a layer of a local registry."""
    component = document["spec"]["descriptor"]["component"]
    component["repositoryContexts"] = [{"baseUrl": f"http://{host}/modules", "type": "ociRegistry"}]
    component["resources"][0]["access"]["localReference"] = digest
    return document


def with_link(document: dict[str, Any], link: str) -> dict[str, Any]:
    """Return a ModuleTemplate whose objects are behind a link."""
    document["spec"]["descriptor"]["component"]["resources"] = []
    document["spec"]["resources"] = [{"name": "rawManifest", "link": link}]
    return document


def release(module: str, **given: Any) -> dict[str, Any]:
    return _without_identity(as_document(builders.release(module, **given)))


async def refusal(write: Callable[[], Awaitable[object]], undo: Callable[[], Awaitable[object]]) -> str:
    """Return the message with which the webhook refuses a write.

    The API server stores the object if the webhook does not answer in time; then it is deleted and written again.
    """

    async def refused() -> str | None:
        try:
            await write()
        except Invalid as error:
            return str(error)
        except AlreadyExists:
            return None  # the stored object is still being deleted
        await undo()
        return None

    return await eventually(refused, what="a refusal")


@asynccontextmanager
async def in_catalog(kcp: Client, *documents: dict[str, Any]) -> AsyncIterator[None]:
    """Keep ModuleTemplates and ModuleReleaseMetas in the control plane until the block ends."""
    for document in documents:
        await put_in_catalog(kcp, document)
    try:
        yield
    finally:
        for document in documents:
            await remove_from_catalog(kcp, document)


async def put_in_catalog(kcp: Client, document: dict[str, Any]) -> None:
    """Create or update a ModuleTemplate or ModuleReleaseMeta."""
    await kcp.apply(_resource(document), document["metadata"]["name"], document, KCP, field_manager="module-team")


async def remove_from_catalog(kcp: Client, document: dict[str, Any]) -> None:
    """Delete a ModuleTemplate or ModuleReleaseMeta."""
    with suppress(NotFound, NotServed):
        await kcp.delete(_resource(document), document["metadata"]["name"], KCP)


def _resource(document: dict[str, Any]) -> Any:
    return MODULE_TEMPLATES if document["kind"] == "ModuleTemplate" else MODULE_RELEASE_METAS


def _without_identity(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels", "annotations"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}
