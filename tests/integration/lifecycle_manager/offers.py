"""Puts modules on offer in the control plane for one test, and takes them off again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from kube_runtime import AlreadyExists, Client, Invalid, NotFound
from lifecycle_manager.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import as_document, names
from tests import builders
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE


def template(module: str, version: str, **given: Any) -> dict[str, Any]:
    """Return a ModuleTemplate that installs something, as somebody would create it."""
    built = as_document(
        builders.template(module, version, **({"installs": True, "enable_module_config": False} | given))
    )
    return _without_identity(built)


def installing(document: dict[str, Any], host: str, digest: str) -> dict[str, Any]:
    """Return a ModuleTemplate whose objects are in a layer of a registry on this machine."""
    component = document["spec"]["descriptor"]["component"]
    component["repositoryContexts"] = [{"baseUrl": f"http://{host}/modules", "type": "ociRegistry"}]
    component["resources"][0]["access"]["localReference"] = digest
    return document


def linking(document: dict[str, Any], link: str) -> dict[str, Any]:
    """Return a ModuleTemplate whose objects are behind a link."""
    document["spec"]["descriptor"]["component"]["resources"] = []
    document["spec"]["resources"] = [{"name": "rawManifest", "link": link}]
    return document


def release(module: str, **given: Any) -> dict[str, Any]:
    """Return a ModuleReleaseMeta as somebody would create it."""
    return _without_identity(as_document(builders.release(module, **given)))


async def refusal(write: Callable[[], Awaitable[object]], undo: Callable[[], Awaitable[object]]) -> str:
    """Return how the control plane refuses to store something.

    Its API server lets pass what nobody could look at in time; then it is undone and written again.
    """

    async def refused() -> str | None:
        try:
            await write()
        except Invalid as error:
            return str(error)
        except AlreadyExists:
            return None  # what was stored is still going
        await undo()
        return None

    return await eventually(refused, what="a refusal")


@asynccontextmanager
async def on_offer(kcp: Client, *documents: dict[str, Any]) -> AsyncIterator[None]:
    """Have ModuleTemplates and ModuleReleaseMetas in the control plane while the test is in here."""
    for document in documents:
        await offer(kcp, document)
    try:
        yield
    finally:
        for document in documents:
            await withdraw(kcp, document)


async def offer(kcp: Client, document: dict[str, Any]) -> None:
    """Create or change one of them."""
    await kcp.apply(_resource(document), document["metadata"]["name"], document, KCP, field_manager="module-team")


async def withdraw(kcp: Client, document: dict[str, Any]) -> None:
    """Delete one of them."""
    with suppress(NotFound):
        await kcp.delete(_resource(document), document["metadata"]["name"], KCP)


def _resource(document: dict[str, Any]) -> Any:
    return MODULE_TEMPLATES if document["kind"] == "ModuleTemplate" else MODULE_RELEASE_METAS


def _without_identity(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels", "annotations"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}
