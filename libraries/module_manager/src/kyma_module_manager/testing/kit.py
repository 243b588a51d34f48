"""Runs a manager on a Module CR without a cluster."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kube_runtime import dump_yaml
from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.rendering import Rendering, render
from lifecycle_manager_api import ModuleConfig, SyncedObject, SyncResource, aggregate, names

T = TypeVar("T")
ModuleCr = str | Path | Mapping[str, Any] | msgspec.Struct


class RenderedObjects(Rendering):
    """What a manager returned for a Module CR: objects, the text of the SyncResource, fields for the status."""

    def one(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """Return the object with that identity. Raises LookupError with the identities of all objects."""
        found = [each for each in self.objects if _identity(each) == (kind, namespace, name)]
        if len(found) != 1:
            there = ", ".join("/".join(filter(None, _identity(each))) for each in self.objects) or "none"
            raise LookupError(f"found {len(found)} of {kind} {namespace}/{name}; the objects are: {there}")
        return found[0]

    def of_kind(self, kind: str) -> tuple[dict[str, Any], ...]:
        """Return every object of a kind, in the order in which the manager returned them."""
        return tuple(each for each in self.objects if each.get("kind") == kind)


async def render_module_cr(
    manager: ModuleManager[T],
    module_cr: ModuleCr,
    *,
    kyma: str = "test-kyma",
    synced: Iterable[SyncedObject] = (),
    written: str = "",
) -> RenderedObjects:
    """Run a manager on a Module CR: YAML text, the path of a file, a mapping or a struct.

    For managers with a second stage, `written` is the text of an earlier run, and `synced` the reported state of its
    objects. Raises PermanentError or RenderingFailed, as the manager does.
    """
    config = module_config_of(manager.module, module_cr, kyma=kyma)
    states = tuple(synced)
    sync_resource = _sync_resource_of(config, written, states) if states or written else None
    rendering = await render(manager, ModuleContext(config, sync_resource))
    return RenderedObjects(rendering.objects, rendering.text, rendering.status)


def module_config_of(module: str, module_cr: ModuleCr, *, kyma: str = "test-kyma") -> ModuleConfig:
    """Return the ModuleConfig that Lifecycle Manager would write for a Module CR."""
    return msgspec.convert(
        {
            "apiVersion": f"{ModuleConfig.GROUP}/{ModuleConfig.VERSION}",
            "kind": ModuleConfig.KIND,
            "metadata": _metadata(kyma, module) | {"uid": "00000000-0000-4000-8000-000000000001"},
            "spec": {"kyma": kyma, "module": module, "resource": _text(module_cr)},
        },
        ModuleConfig,
    )


def synced_object(
    kind: str, name: str, namespace: str = "", *, group: str = "", version: str = "v1", state: str = "Ready"
) -> SyncedObject:
    """Return the state of one object as Lifecycle Manager reports it."""
    fields = {"group": group, "version": version, "kind": kind, "namespace": namespace, "name": name}
    return msgspec.convert(fields | {"state": state}, SyncedObject)


def _sync_resource_of(config: ModuleConfig, text: str, synced: tuple[SyncedObject, ...]) -> SyncResource:
    spec = config.spec
    return msgspec.convert(
        {
            "apiVersion": f"{SyncResource.GROUP}/{SyncResource.VERSION}",
            "kind": SyncResource.KIND,
            "metadata": _metadata(spec.kyma, spec.module) | {"uid": "00000000-0000-4000-8000-000000000002"},
            "spec": {"kyma": spec.kyma, "module": spec.module, "resource": text},
            "status": {
                "state": aggregate(each.state for each in synced),
                "observedGeneration": 1,
                "synced": [msgspec.to_builtins(each) for each in synced],
            },
        },
        SyncResource,
    )


def _metadata(kyma: str, module: str) -> dict[str, Any]:
    return {
        "name": f"{kyma}-{module}",
        "namespace": names.KCP_NAMESPACE,
        "generation": 1,
        "resourceVersion": "1",
        "labels": {names.KYMA_NAME: kyma, names.MODULE_NAME: module},
    }


def _text(module_cr: ModuleCr) -> str:
    match module_cr:
        case str():
            return module_cr
        case Path():
            return module_cr.read_text()
        case _:
            return dump_yaml(msgspec.to_builtins(module_cr))


def _identity(document: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = document.get("metadata", {})
    return document.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", "")
