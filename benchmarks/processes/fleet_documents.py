"""The objects of a simulated fleet: the catalog, and the Kyma and access Secret of each cluster."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kube_runtime import dump_yaml
from lifecycle_manager_api import Kyma, State, find, names

MODULES = tuple(f"module-{letter * 3}" for letter in "abcdefghij")
VERSIONS = ("1.0.0", "1.1.0")
CONFIGURED = "module-configured"
"""The module that every Kyma has with `--configured`: users configure it by Things."""
THINGS = f"/apis/example.com/v1/namespaces/{names.SKR_NAMESPACE}/things"
API = f"/apis/{names.GROUP}/v1beta2/namespaces"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
Document = dict[str, Any]


@dataclass(frozen=True)
class Layers:
    """The layers of the modules: a registry, and the digest of each version by its name."""

    registry: str
    digests: dict[str, str]


def kyma_name(number: int) -> str:
    """Return the name of a Kyma, and of its cluster."""
    return f"kyma-{number}"


def thing() -> Document:
    """Return the default CR of the configured module."""
    metadata = {"name": "default", "namespace": names.SKR_NAMESPACE}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"text": "default"}}


def definition_of_things() -> Document:
    """Return the definition of the Module CRs of the configured module."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
        },
    }


def catalog(layers: Layers, configured: bool, versions: Sequence[str] = VERSIONS) -> Iterator[Document]:
    """Return the catalog: some versions of each module, of which its channels offer the first two."""
    for module in (*MODULES, CONFIGURED) if configured else MODULES:
        data = {"data": thing(), "enableModuleConfig": True} if module == CONFIGURED else {}
        for version in versions:
            yield _object(
                "ModuleTemplate",
                f"{module}-{version}",
                {
                    "moduleName": module,
                    "version": version,
                    **data,
                    "descriptor": {
                        "component": {
                            "name": f"example.com/module/{module}",
                            "version": version,
                            "repositoryContexts": [{"baseUrl": layers.registry}],
                            "resources": [
                                {
                                    "name": "raw-manifest",
                                    "access": {"localReference": layers.digests[f"{module}-{version}"]},
                                }
                            ],
                        }
                    },
                },
            )
        channels = [{"channel": "regular", "version": VERSIONS[0]}, {"channel": "fast", "version": VERSIONS[1]}]
        yield _object("ModuleReleaseMeta", module, {"moduleName": module, "channels": channels})


def registration(
    number: int, modules: int, kubeconfig: Document, *, configured: bool, alike: bool
) -> Iterator[Document]:
    """Return the Kyma of a cluster and its access Secret."""
    name = kyma_name(number)
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(dump_yaml(kubeconfig).encode()).decode()
    metadata = {"name": f"kubeconfig-{name}", "namespace": names.KCP_NAMESPACE, "labels": labels}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"config": config}}
    first = 0 if alike else number
    chosen = [MODULES[(first + index) % (len(MODULES) - 1)] for index in range(modules)]
    chosen += [CONFIGURED] if configured else []
    # With its defaults, as the API server stores it: else the first write would be another generation.
    defaults = {"managed": True, "customResourcePolicy": "CreateAndDelete"}
    spec = {"channel": "regular", "modules": [{"name": module, **defaults} for module in chosen]}
    kyma = _object("Kyma", name, spec)
    kyma["metadata"]["labels"] = {names.RUNTIME_ID: f"runtime-{number}", names.REGION: "eu-central-1"}
    yield kyma


def _object(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE, "generation": 1}
    return {"apiVersion": f"{names.GROUP}/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def with_uid(document: Document, uids: Iterator[int]) -> Document:
    """Return a document as an API server stores it."""
    assigned = {"uid": f"00000000-0000-0000-0000-{next(uids):012}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**document, "metadata": {**document["metadata"], **assigned}}


def is_in_sync(kyma: Kyma) -> bool:
    """Tell whether a Kyma has its modules and its catalog."""
    catalog = find(kyma.status.conditions, "ModuleCatalog")
    modules = kyma.status.modules
    return (
        bool(modules)
        and all(each.state is State.READY or each.name == CONFIGURED for each in modules)  # it may still start
        and bool(catalog and catalog.status == "True")
    )
