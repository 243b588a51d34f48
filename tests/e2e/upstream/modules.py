"""The module of the scenarios: an operator with a kind, a default Module CR and a workload, in two versions."""

from dataclasses import dataclass, field
from typing import Any

from kube_runtime import Resource, dump_yaml
from lifecycle_manager_api import as_document, names
from tests import builders
from tests.integration.lifecycle_manager.catalog_entries import template, with_layer
from tests.kinds import crd_of
from tests.registries import BlobServer, packed

Document = dict[str, Any]
SKR = names.SKR_NAMESPACE
OLD, NEW = "1.0.0", "2.0.0"
IMAGE = "registry.example.com/operator"
BROKEN_IMAGE = "registry.example.com/missing"
"""No kubelet can pull it."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module as its team describes it. `api` is the version of its kind, by versions of the module."""

    name: str
    workload: str = "Deployment"
    image: str = IMAGE
    is_cluster_scoped: bool = False
    has_default: bool = True
    requires_downtime: tuple[str, ...] = ()
    mandatory: bool = False
    api: dict[str, str] = field(default_factory=dict)
    more: tuple[Document, ...] = ()

    @property
    def group(self) -> str:
        return f"{self.name}.example.com"

    def samples(self, version: str = OLD) -> Resource[Document]:
        api = self.api.get(version, "v1")
        return Resource.dynamic(self.group, api, "Sample", "samples", namespaced=not self.is_cluster_scoped)

    @property
    def namespace(self) -> str | None:
        """The namespace of its default Module CR."""
        return None if self.is_cluster_scoped else SKR

    def operator(self, version: str) -> str:
        return f"{self.name}-v{version[0]}"

    def objects(self, version: str) -> list[Document]:
        labels = {"app": self.operator(version)}
        container = {"name": "manager", "image": f"{self.image}:{version}", "env": [{"name": "LEVEL", "value": "info"}]}
        account = f"{self.name}-operator"
        pod = {
            "metadata": {"labels": labels},
            "spec": {"serviceAccountName": account, "containers": [container]},
        }
        spec: Document = {"selector": {"matchLabels": labels}, "template": pod}
        if self.workload == "StatefulSet":
            spec["serviceName"] = self.name
        workload = {
            "apiVersion": "apps/v1",
            "kind": self.workload,
            "metadata": {"name": self.operator(version), "namespace": SKR},
            "spec": spec,
        }
        account_document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
        return [self.crd(version), account_document, workload, *self.more]

    def templates(self, layers: BlobServer, *versions: str, **metadata: Any) -> list[Document]:
        """Return the ModuleTemplates of versions, whose layers a registry then has."""
        return [self._template(layers, version, **metadata) for version in versions]

    def _template(self, layers: BlobServer, version: str, **metadata: Any) -> Document:
        given: Document = {**metadata}
        annotations: dict[str, str] = {names.IS_CLUSTER_SCOPED: "true"} if self.is_cluster_scoped else {}
        default: Document = {
            "apiVersion": f"{self.group}/{self.samples(version).version}",
            "kind": "Sample",
            "metadata": {"name": "sample"},
            "spec": {},
        }
        document = template(
            self.name,
            version,
            data=default if self.has_default else None,
            requires_downtime=version in self.requires_downtime,
            mandatory=self.mandatory,
            annotations=annotations,
            **given,
        )
        text = "---\n".join(map(dump_yaml, self.objects(version)))
        document = with_layer(document, layers.host, layers.hold(packed({"all.yaml": text})))
        manager = {"group": "apps", "version": "v1", "kind": self.workload, "name": self.operator(version)}
        document["spec"]["manager"] = {**manager, "namespace": SKR}
        return document

    def release(self, spec: Document | None = None, **channels: str) -> Document:
        """Return the ModuleReleaseMeta; with `mandatory` its version, else a version for each channel."""
        given: Document = {"spec": spec, **channels}
        document: Document = as_document(builders.release(self.name, **given))
        return {**document, "metadata": {"name": self.name, "namespace": names.KCP_NAMESPACE}}

    def crd(self, version: str) -> Document:
        served = {"v1", *self.api.values()} if self.api.get(version) else {"v1"}
        scope = "Cluster" if self.is_cluster_scoped else "Namespaced"
        return crd_of(self.group, "Sample", *served, stored=self.api.get(version, "v1"), scope=scope, has_status=True)
