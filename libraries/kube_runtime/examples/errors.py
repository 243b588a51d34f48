"""Three ways of not being done: wait, fail and be retried, and fail until somebody changes the object."""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime import Resource, TerminalError
from kube_runtime.operator import Operator, Owner

CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
MAX_KILOGRAMS = 30
operator = Operator("errors")


class ParcelSpec(Struct, frozen=True, kw_only=True):
    kilograms: int
    """Its weight."""


class ParcelStatus(Struct, frozen=True, kw_only=True):
    state: str = ""
    """Where it is."""


class Parcel(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "errors.example.com"
    spec: ParcelSpec
    """What is sent."""
    status: ParcelStatus = ParcelStatus()
    """What became of it."""


@operator.reconciles(Parcel, reads=[CONFIG_MAPS])
async def send(parcel: Parcel, owner: Owner[Parcel]) -> float | None:
    if parcel.spec.kilograms > MAX_KILOGRAMS:
        await owner.write_status(ParcelStatus(state="refused"))
        raise TerminalError(f"{owner.key} is heavier than {MAX_KILOGRAMS} kg")  # not retried: a change may help
    depot = owner.get(CONFIG_MAPS, "depot")
    if depot is None:
        await owner.write_status(ParcelStatus(state="waiting"))
        return 60  # nothing failed; the depot's creation calls this function before that
    if depot["data"]["open"] != "true":
        raise RuntimeError("the depot is closed")  # retried, with growing pauses
    await owner.write_status(ParcelStatus(state="sent"))
    return None
