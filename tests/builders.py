"""Builders for the objects of the tests: a test gives the fields that matter, the rest has defaults."""

from datetime import datetime
from typing import Any

import msgspec

from lifecycle_manager_api import (
    ApiObject,
    Kyma,
    Manifest,
    ModuleConfig,
    ModuleReleaseMeta,
    ModuleTemplate,
    SyncResource,
    as_document,
    names,
)

TIME = "2026-11-01T12:00:00Z"
NOW = datetime.fromisoformat(TIME)
AUTHORED = ("name", "labels", "annotations")

INFRASTRUCTURE_DATA = {
    "apiVersion": "cloud-resources.kyma-project.io/v1beta1",
    "kind": "Infrastructure",
    "metadata": {"name": "default", "namespace": "kyma-system"},
    "spec": {},
}


def kyma(
    name: str = "demo",
    *,
    channel: str = "regular",
    modules: list[dict[str, Any]] | None = None,
    status: dict[str, Any] | None = None,
    records: dict[str, str] | None = None,
    **metadata: Any,
) -> Kyma:
    """Return a Kyma of the control plane, with its finalizer unless `finalizers` is given.

    `modules` are those of the spec; `status` may have conditions and module statuses of the builders below.
    """
    return msgspec.convert(
        {
            "metadata": {"finalizers": [names.KYMA_FINALIZER]} | _metadata(name, metadata),
            "spec": {"channel": channel, "modules": modules or []},
            "status": {**(status or {}), "records": records or {}},
        },
        Kyma,
    )


def condition(
    kind: str, reason: str, message: str = "", status: str = "False", *, generation: int | None = None, at: str = TIME
) -> dict[str, Any]:
    observed = {} if generation is None else {"observedGeneration": generation}
    known = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
    return known | observed


def module_status(module: str = "keda", version: str = "1.0.0", state: str = "Ready", **more: Any) -> dict[str, Any]:
    """Return what the status of a Kyma says of a module that Lifecycle Manager has installed from a template."""
    template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": f"{module}-{version}"}}
    known = {"name": module, "version": version, "state": state, "channel": "regular", "template": template}
    return {key: value for key, value in (known | more).items() if value is not None}


def template(
    module: str = "cloud-resources",
    version: str = "0.1.0",
    *,
    channel: str = "",
    enable_module_config: bool = True,
    data: dict[str, Any] | None = INFRASTRUCTURE_DATA,
    mandatory: bool = False,
    installs: bool = False,
    requires_downtime: bool = False,
    **metadata: Any,
) -> ModuleTemplate:
    """Return a ModuleTemplate, named by module and version unless it has a channel.

    With `installs` its descriptor names a layer with objects; otherwise there is nothing to install.
    """
    spec: dict[str, Any] = {
        "moduleName": module,
        "enableModuleConfig": enable_module_config,
        "mandatory": mandatory,
        "requiresDowntime": requires_downtime,
        "descriptor": descriptor(module, version, installs=installs),
    }
    spec |= {"channel": channel} if channel else {"version": version}
    spec |= {"data": data} if data is not None else {}
    document = {"metadata": _metadata(f"{module}-{channel or version}", metadata), "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleTemplate)


def descriptor(module: str, version: str, *, installs: bool = True) -> dict[str, Any]:
    """Return the component descriptor of a version, of schema v2."""
    layer = {"name": "raw-manifest", "access": {"type": "localOciBlob", "localReference": f"sha256:{version}"}}
    return {
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": f"kyma-project.io/module/{module}",
            "version": version,
            "repositoryContexts": [{"baseUrl": "registry.example.com/modules", "type": "ociRegistry"}],
            "resources": [layer] if installs else [],
        },
    }


def release(
    module: str = "cloud-resources",
    *,
    mandatory: str = "",
    spec: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **channels: str,
) -> ModuleReleaseMeta:
    """Return a ModuleReleaseMeta with a version for each channel, or a mandatory one."""
    entries = [{"channel": channel, "version": version} for channel, version in channels.items()]
    content: dict[str, Any] = {"mandatory": {"version": mandatory}} if mandatory else {"channels": entries}
    return msgspec.convert(
        {"metadata": _metadata(module, metadata or {}), "spec": {"moduleName": module, **content, **(spec or {})}},
        ModuleReleaseMeta,
    )


def manifest(
    module: str = "cloud-resources",
    version: str = "0.1.0",
    *,
    kyma: str = "demo",
    channel: str = "regular",
    mandatory: bool = False,
    status: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    **metadata: Any,
) -> Manifest:
    marks = {names.KYMA_NAME: kyma, names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    marks |= {names.MANDATORY_MODULE: "true"} if mandatory else {names.CHANNEL: channel}
    document = {
        "metadata": _metadata(f"{kyma}-{module}", {"labels": marks | (labels or {})} | metadata),
        "spec": {"install": {"name": "raw-manifest", "source": {}}, "remote": True, "version": version},
        "status": status or {"state": ""},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Manifest)


def module_config(
    name: str = "demo-cloud-resources",
    *,
    kyma: str = "demo",
    module: str = "cloud-resources",
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> ModuleConfig:
    labels = {names.KYMA_NAME: kyma, names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    document = {
        "metadata": _metadata(name, {"labels": labels} | metadata),
        "spec": {"kyma": kyma, "module": module} | (spec or {}),
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleConfig)


def sync_resource(
    name: str = "demo-cloud-resources",
    *,
    text: str = "",
    kyma: str = "demo",
    module: str = "cloud-resources",
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> SyncResource:
    """Return a SyncResource, with its finalizer unless `finalizers` is given."""
    return msgspec.convert(
        {
            "metadata": {"finalizers": [names.SYNC_RESOURCE_FINALIZER]} | _metadata(name, metadata),
            "spec": {"kyma": kyma, "module": module, "resource": text},
            "status": status or {},
        },
        SyncResource,
    )


def infrastructure(
    name: str = "default", *, namespace: str = "kyma-system", resource_version: str = "7", **spec: Any
) -> dict[str, Any]:
    """Return a Module CR as the API server of an SKR returns it."""
    return {
        "apiVersion": "cloud-resources.kyma-project.io/v1beta1",
        "kind": "Infrastructure",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{namespace}-{name}",
            "resourceVersion": resource_version,
            "generation": 1,
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": spec,
    }


def as_written(item: ApiObject) -> dict[str, Any]:
    """Return an object as its author writes it: without status, and without what the API server sets."""
    document = as_document(item)
    document.pop("status", None)
    document["metadata"] = {key: document["metadata"][key] for key in AUTHORED if document["metadata"].get(key)}
    return document


def _metadata(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": names.KCP_NAMESPACE,
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "generation": 1,
    } | given
