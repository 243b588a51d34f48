"""A Module Manager of KEDA, as a module team writes it for the CRD that it has."""

from typing import Any

import msgspec

from kyma_module_manager import PermanentError, Rendered, module_manager
from lifecycle_manager_api import ObjectMeta


class Logging(msgspec.Struct, frozen=True):
    level: str = "info"
    format: str = "console"


class OfEachPart(msgspec.Struct, frozen=True):
    operator: dict[str, Any] = {}


class OperatorLogging(msgspec.Struct, frozen=True):
    operator: Logging = Logging()


class KedaSpec(msgspec.Struct, frozen=True, rename="camel"):
    logging: OperatorLogging = OperatorLogging()
    resources: OfEachPart = OfEachPart()
    pod_annotations: OfEachPart = OfEachPart()
    env: list[dict[str, Any]] = []


class Keda(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: KedaSpec = KedaSpec()


@module_manager("keda", crd=Keda)
def objects(keda: Keda) -> Rendered:
    """Return KEDA's operator as the user wants it. `served` is a required field of the status in its CRD."""
    if any(not each.get("name") for each in keda.spec.env):
        raise PermanentError("a variable has no name", reason="VariableWithoutName")
    log, labels = keda.spec.logging.operator, {"app": "keda-operator"}
    container = {
        "name": "keda-operator",
        "image": "europe-docker.pkg.dev/kyma-project/prod/external/kedacore/keda:2.17.2",
        "args": [f"--zap-log-level={log.level}", f"--zap-encoder={log.format}"],
        "env": keda.spec.env,
        "resources": keda.spec.resources.operator,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "keda-operator", "namespace": keda.metadata.namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": keda.spec.pod_annotations.operator},
                "spec": {"containers": [container]},
            },
        },
    }
    return Rendered([deployment], status={"served": "True", "kedaVersion": "2.17.2"})
