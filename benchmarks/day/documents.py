"""The objects of the day's control plane: its catalog, the waves, and the Kyma and access Secret of each cluster."""

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta

from benchmarks.processes.fleet_documents import CONFIGURED, MODULES, Document, Layers, catalog
from kube_runtime import dump_yaml
from lifecycle_manager_api import names

VERSIONS = ("1.0.0", *(f"{day}.{number}.0" for day in (1, 2, 3) for number in (1, 2, 3, 4)))
"""The first ones, and those that are released on each day."""
BAD, WITH_DOWNTIME = ".2.0", ".4.0"
"""How versions end that every third cluster refuses, and those that wait for a maintenance window."""
INSTALLED, OPTIONAL, MANDATORY = MODULES[:7], MODULES[7], MODULES[8]
REGIONS = 12
"""A twelfth of the clusters is a region: 417 of 5,000."""
STRATEGY = "careful"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def region_of(number: int) -> str:
    """Return the region of a cluster."""
    return f"region-{number % REGIONS}"


def modules_of(number: int, count: int) -> list[str]:
    """Return the modules that a cluster begins with: the configured one is always among them."""
    return [*(INSTALLED[(number + index) % len(INSTALLED)] for index in range(count - 1)), CONFIGURED]


def access_secret(name: str, kubeconfig: Document) -> Document:
    """Return the access Secret of a cluster."""
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(dump_yaml(kubeconfig).encode()).decode()
    metadata = {"name": f"kubeconfig-{name}", "namespace": names.KCP_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"config": config}}


def kyma(name: str, number: int, modules: list[str]) -> Document:
    """Return the Kyma of a cluster."""
    labels = {names.RUNTIME_ID: name, names.REGION: region_of(number)}
    spec = {"channel": "regular", "modules": [{"name": module} for module in modules]}
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE, "labels": labels}
    return {"apiVersion": f"{names.GROUP}/v1beta2", "kind": "Kyma", "metadata": metadata, "spec": spec}


def entries(layers: Layers) -> Iterator[Document]:
    """Yield the catalog, of which one module is mandatory."""
    for document in catalog(layers, configured=True, versions=VERSIONS):
        document["metadata"].pop("generation")
        if document["metadata"]["name"] == MANDATORY:
            document["spec"] = {"moduleName": MANDATORY, "mandatory": {"version": VERSIONS[0]}}
        if document["metadata"]["name"].endswith(WITH_DOWNTIME):
            document["spec"]["requiresDowntime"] = True
        yield document


def policy() -> Document:
    """Return what the configured module may have in the clusters."""
    allowed = {"group": "", "kind": "ConfigMap", "names": ["*"]}
    definition = {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "names": ["things.example.com"]}
    spec = {"namespacedResources": {"allow": [allowed]}, "clusterResources": [definition]}
    return _object("v1alpha1", "ModulePolicy", CONFIGURED, spec)


def strategies(soak_seconds: float) -> Iterator[Document]:
    """Yield the waves of releases: a region first, then the others. `default` is for large changes."""
    soak = f"{max(1, round(soak_seconds))}s"
    canary = {"name": "canary", "kymaSelector": {"matchLabels": {names.REGION: region_of(0)}}}
    rules = {"maxConcurrent": "25%", "maxFailures": "5%", "soak": soak}
    for name in (STRATEGY, "default"):
        yield _object("v1alpha1", "RolloutStrategy", name, {"waves": [{**canary, **rules}], "remaining": rules})


def maintenance_policy(now: datetime, *, is_open: bool) -> Document:
    """Return a policy with a window that is open for twelve hours, or opens in three days."""
    if is_open:
        begin, end = now - timedelta(hours=1), now + timedelta(hours=11)
        window = {"days": list(DAYS), "begin": f"{begin:%H:%M:%S}+00:00", "end": f"{end:%H:%M:%S}+00:00"}
    else:
        day = DAYS[(now + timedelta(days=3)).weekday()]
        window = {"days": [day], "begin": "00:00:00+00:00", "end": "01:00:00+00:00"}
    return {"rules": [], "default": window}


def _object(version: str, kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE}
    return {"apiVersion": f"{names.GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}
