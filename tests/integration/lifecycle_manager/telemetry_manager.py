"""A Module Manager of telemetry, as a module team writes it for the CRD that it has."""

from typing import Any

import msgspec

from kyma_module_manager import PermanentError, Rendered, module_manager
from lifecycle_manager_api import ObjectMeta

PIPELINE = "backend"


class Cluster(msgspec.Struct, frozen=True):
    name: str = ""


class Enrichments(msgspec.Struct, frozen=True, rename="camel"):
    cluster: Cluster = Cluster()
    extract_pod_labels: list[dict[str, str]] = []


class TelemetrySpec(msgspec.Struct, frozen=True):
    enrichments: Enrichments = Enrichments()
    metric: dict[str, Any] = {}


class Telemetry(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: TelemetrySpec = TelemetrySpec()


@module_manager("telemetry", crd=Telemetry)
def objects(telemetry: Telemetry) -> Rendered:
    """Return the configuration of the gateway, where it listens, and for a cluster with a name a TracePipeline."""
    enrichments = telemetry.spec.enrichments
    keys = [each.get("key") or f"{each['keyPrefix']}*" for each in enrichments.extract_pod_labels]
    if len(keys) != len(set(keys)):
        raise PermanentError("a label of Pods is extracted twice", reason="LabelTwice")
    namespace = telemetry.metadata.namespace
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "telemetry-gateway", "namespace": namespace},
        "data": {"labels": ",".join(keys), "interval": telemetry.spec.metric.get("collectionInterval", "30s")},
    }
    pipelines = [_to_backend(enrichments.cluster.name)] if enrichments.cluster.name else []
    endpoints = {"otlp": {"grpc": f"http://telemetry-otlp.{namespace}:4317"}}
    return Rendered([config_map, *pipelines], status={"endpoints": endpoints})


def _to_backend(tenant: str) -> dict[str, Any]:
    """Return the TracePipeline to the backend of the module team, which knows the cluster as a tenant."""
    endpoint = {"value": "https://backend.example.com:4317"}
    return {
        "apiVersion": "telemetry.kyma-project.io/v1beta1",
        "kind": "TracePipeline",
        "metadata": {"name": PIPELINE},
        "spec": {"output": {"otlp": {"endpoint": endpoint, "headers": [{"name": "tenant", "value": tenant}]}}},
    }
