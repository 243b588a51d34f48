"""A Module Manager that brings KEDA itself, as upstream releases it, with the log level that the user wants.

The variable KEDA_MANIFEST names the file of KEDA's objects.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import load_documents
from kyma_module_manager import Rendered, module_manager
from lifecycle_manager_api import ObjectMeta

MANIFEST, IMAGE = "KEDA_MANIFEST", "localhost/keda:upstream"


class Logging(msgspec.Struct, frozen=True):
    level: str = "info"


class OperatorLogging(msgspec.Struct, frozen=True):
    operator: Logging = Logging()


class KedaSpec(msgspec.Struct, frozen=True):
    logging: OperatorLogging = OperatorLogging()


class Keda(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: KedaSpec = KedaSpec()


@module_manager("keda", crd=Keda)
def objects(keda: Keda) -> Rendered:
    """Return KEDA's objects; its image is the one on the node."""
    found = [_with_log_level(each, keda.spec.logging.operator.level) for each in keda_objects()]
    return Rendered(found, status={"served": "True", "kedaVersion": "2.20.1"})


@cache
def keda_objects() -> tuple[dict[str, Any], ...]:
    objects = objects_in(Path(os.environ[MANIFEST]))
    for container in (_container(each) for each in objects if each["kind"] == "Deployment"):
        container |= {"image": IMAGE, "imagePullPolicy": "Never"}
    return objects


def objects_in(file: Path) -> tuple[dict[str, Any], ...]:
    return tuple(map(dict, load_documents(file.read_text())))


def _with_log_level(document: dict[str, Any], level: str) -> dict[str, Any]:
    if (document["kind"], document["metadata"]["name"]) != ("Deployment", "keda-operator"):
        return document
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    container = _container(changed)
    others = [each for each in container["args"] if not each.startswith("--zap-log-level=")]
    container["args"] = [*others, f"--zap-log-level={level}"]
    return changed


def _container(deployment: dict[str, Any]) -> dict[str, Any]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found
