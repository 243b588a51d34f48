"""Decodes a list of 5,000 Kymas of 4 kB each from JSON to objects, beside the generated client with the same bytes.

The peer is kubernetes-asyncio's `ApiClient.deserialize` for custom objects, which returns dicts and lists; ours
returns typed, immutable objects. Both run in this process, in turns, with the garbage collector enabled.
"""

import statistics
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from kubernetes_asyncio.client import ApiClient

from benchmarks.figures import Figure
from lifecycle_manager_api import Kyma, decode_list

KYMAS = 5000
ROUNDS = 7
BAR = 0.1


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
    body = kyma_list()
    generated: Any = ApiClient.deserialize
    client = SimpleNamespace(_ApiClient__deserialize=lambda data, _kind: data)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_seconds(lambda: decode_list(Kyma, body)))
        theirs.append(_seconds(lambda: generated(client, SimpleNamespace(data=body), "object")))
    value, peer = statistics.median(ours), statistics.median(theirs)
    Figure(
        name="api_decoding_list_of_kymas",
        unit="µs an object",
        value=round(value / KYMAS * 1e6, 2),
        peer="kubernetes-asyncio, custom objects",
        peer_value=round(peer / KYMAS * 1e6, 2),
        bar=f"under {BAR:g} of the peer",
        met=value / peer < BAR,
    ).print()
    return 0 if value / peer < BAR else 1


def kyma_list() -> bytes:
    """Return the answer of an API server with many Kymas, of 4 kB each."""
    items = [msgspec.Raw(msgspec.json.encode(kyma_document(number))) for number in range(KYMAS)]
    listed = {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "KymaList",
        "metadata": {"resourceVersion": "4711"},
        "items": items,
    }
    return msgspec.json.encode(listed)


def kyma_document(number: int) -> dict[str, Any]:
    """Return a Kyma with three modules, and the managedFields that an API server stores for its spec and status."""
    modules = ["api-gateway", "serverless", "telemetry"]
    spec = {"channel": "regular", "modules": [{"name": name, "managed": True} for name in modules]}
    status = {
        "state": "Ready",
        "activeChannel": "regular",
        "observedGeneration": 3,
        "conditions": [_condition(kind) for kind in ("Ready", "Modules", "SKRWebhook")],
        "modules": [_module(name) for name in modules],
    }
    labels = {
        "kyma-project.io/runtime-id": f"runtime-{number:05d}",
        "kyma-project.io/region": "eu-central-1",
        "kyma-project.io/broker-plan-name": "aws",
        "operator.kyma-project.io/managed-by": "lifecycle-manager",
    }
    return {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "Kyma",
        "metadata": {
            "name": f"kyma-{number:05d}",
            "namespace": "kcp-system",
            "uid": f"5b7a4f0e-5f5e-4f37-9a0c-{number:012d}",
            "resourceVersion": str(number),
            "generation": 3,
            "creationTimestamp": "2026-11-01T12:00:00Z",
            "finalizers": ["operator.kyma-project.io/Kyma"],
            "labels": labels,
            "managedFields": [
                _managed("environment-broker", {"metadata": {"labels": labels}, "spec": spec}),
                _managed("lifecycle-manager", {"status": status}),
            ],
        },
        "spec": spec,
        "status": status,
    }


def _managed(manager: str, document: dict[str, object]) -> dict[str, object]:
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "time": "2026-11-01T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields_of(document),
    }


def _fields_of(value: object) -> dict[str, object]:
    """Return the set of a value's fields in the form of FieldsV1."""
    if isinstance(value, dict):
        return {f"f:{name}": _fields_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return {_key_of(each): {".": {}} | _fields_of(each) for each in value}
    return {}


def _key_of(item: dict[str, object]) -> str:
    key = "type" if "type" in item else "name"
    return "k:" + msgspec.json.encode({key: item[key]}).decode()


def _condition(kind: str) -> dict[str, object]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Ready",
        "message": "5 of 5 modules are ready",
        "lastTransitionTime": "2026-11-01T12:00:00Z",
        "observedGeneration": 3,
    }


def _module(name: str) -> dict[str, object]:
    template = {"name": f"{name}-1.2.0", "namespace": "kcp-system", "generation": 1}
    return {
        "name": name,
        "channel": "regular",
        "version": "1.2.0",
        "state": "Ready",
        "template": {"apiVersion": "operator.kyma-project.io/v1beta2", "kind": "ModuleTemplate", "metadata": template},
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
