"""A Module Manager of telemetry, as a module team writes it for the CRD that it has."""

from typing import Any

import msgspec

from kyma_module_manager import PermanentError, Rendered, module_manager
from lifecycle_manager_api import ObjectMeta


class Enrichments(msgspec.Struct, frozen=True, rename="camel"):
    extract_pod_labels: list[dict[str, str]] = []


class TelemetrySpec(msgspec.Struct, frozen=True):
    enrichments: Enrichments = Enrichments()
    metric: dict[str, Any] = {}


class Telemetry(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: TelemetrySpec = TelemetrySpec()


@module_manager("telemetry", crd=Telemetry)
def objects(telemetry: Telemetry) -> Rendered:
    """Return the configuration of the gateway as the user wants it, and where it listens."""
    keys = [each.get("key") or f"{each['keyPrefix']}*" for each in telemetry.spec.enrichments.extract_pod_labels]
    if len(keys) != len(set(keys)):
        raise PermanentError("a label of Pods is extracted twice", reason="LabelTwice")
    namespace = telemetry.metadata.namespace
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "telemetry-gateway", "namespace": namespace},
        "data": {"labels": ",".join(keys), "interval": telemetry.spec.metric.get("collectionInterval", "30s")},
    }
    return Rendered([config_map], status={"endpoints": {"otlp": {"grpc": f"http://telemetry-otlp.{namespace}:4317"}}})
