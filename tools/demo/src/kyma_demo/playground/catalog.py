"""The module `greeting`, whose versions are rolled out: two that work, and one that the clusters refuse."""

from collections.abc import Iterator

from kube_runtime import dump_yaml
from kyma_demo.registry import Document, entry, template_specs
from lifecycle_manager_api import names

MODULE, CHANNEL = "greeting", "regular"
FIRST, GOOD, REFUSED = "1.0.0", "1.1.0", "2.0.0"
GREETINGS = {FIRST: "Hello", GOOD: "Good morning", REFUSED: "Good evening"}
STRATEGY = "playground"
STAGE, CANARY = "stage", "canary"
"""The label of a cluster in the first wave."""
SOAK = "3s"
INVALID_PORT = 70_000


def layers() -> dict[str, bytes]:
    """Return the objects of each version, as its layer in a registry."""
    return {version: _objects(version).encode() for version in GREETINGS}


def entries(registry: str) -> str:
    """Return the entries of the catalog, and the RolloutStrategy that they name, as YAML."""
    return "---\n".join(map(dump_yaml, _entries(registry)))


def _entries(registry: str) -> Iterator[Document]:
    wave = {"maxConcurrent": "50%", "maxFailures": "0", "soak": SOAK}
    canary = {"name": CANARY, "kymaSelector": {"matchLabels": {STAGE: CANARY}}, **wave}
    yield entry("v1alpha1", "RolloutStrategy", STRATEGY, {"waves": [canary], "remaining": wave})
    for version, spec in template_specs(MODULE, layers(), registry).items():
        yield entry("v1beta2", "ModuleTemplate", f"{MODULE}-{version}", spec)
    meta = entry(
        "v1beta2",
        "ModuleReleaseMeta",
        MODULE,
        {"moduleName": MODULE, "channels": [{"channel": CHANNEL, "version": FIRST}]},
    )
    meta["metadata"]["annotations"] = {names.ROLLOUT_STRATEGY: STRATEGY, names.ALLOW_DOWNGRADE: "true"}
    yield meta


def _objects(version: str) -> str:
    metadata = {"name": MODULE, "namespace": names.SKR_NAMESPACE}
    greeting = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"greeting": GREETINGS[version], "version": version},
    }
    port = INVALID_PORT if version == REFUSED else 80
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": port}]}}
    return f"{dump_yaml(greeting)}---\n{dump_yaml(service)}"
