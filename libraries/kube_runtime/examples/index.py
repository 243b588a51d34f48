"""Objects of another kind found by what they have in common: how many Pods of an application there are."""

from collections.abc import Iterable
from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime import Index, JsonObject, Manager, Resource
from kube_runtime.operator import Operator, Owner

PODS = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
operator = Operator("index")


def application_of(pod: JsonObject) -> Iterable[str]:
    labels = pod["metadata"].get("labels", {})
    return [labels["app"]] if "app" in labels else []


BY_APPLICATION = Index("application", application_of)


class CensusSpec(Struct, frozen=True, kw_only=True):
    app: str
    """The application whose Pods are counted."""


class CensusStatus(Struct, frozen=True, kw_only=True):
    pods: int = 0
    """How many there are."""


class Census(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "index.example.com"
    PLURAL: ClassVar[str] = "censuses"
    spec: CensusSpec
    """What is counted."""
    status: CensusStatus = CensusStatus()
    """What there is."""


@operator.extends
def index(manager: Manager) -> None:
    manager.informer(PODS, indexes=[BY_APPLICATION])


@operator.reconciles(Census, every=1)
async def count(census: Census, owner: Owner[Census]) -> None:
    pods = owner.manager.informer(PODS).by_index(BY_APPLICATION, census.spec.app)
    await owner.write_status(CensusStatus(pods=len(pods)))
