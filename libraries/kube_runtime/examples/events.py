"""Kubernetes Events about an object, as `kubectl describe` shows them."""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator, Owner

operator = Operator("events")


class KettleSpec(Struct, frozen=True, kw_only=True):
    litres: float = 0
    """The water in it."""


class Kettle(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "events.example.com"
    spec: KettleSpec = KettleSpec()
    """What is wanted."""


@operator.reconciles(Kettle)
async def boil(kettle: Kettle, owner: Owner[Kettle]) -> None:
    if kettle.spec.litres:
        owner.event("Boiled", f"{kettle.spec.litres} l are hot")
    else:
        owner.event("Empty", "there is no water in it", type="Warning")
