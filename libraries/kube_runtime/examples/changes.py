"""What changed, without handlers for each kind of change: the status says what was done, the spec what is wanted.

So nothing is lost while the operator does not run, and a restart does nothing twice.
"""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator, Owner

operator = Operator("changes")


class LampSpec(Struct, frozen=True, kw_only=True):
    colour: str
    """Its colour."""


class LampStatus(Struct, frozen=True, kw_only=True):
    colour: str = ""
    """The colour that it has."""


class Lamp(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "changes.example.com"
    spec: LampSpec
    """What is wanted."""
    status: LampStatus = LampStatus()
    """What there is."""


@operator.reconciles(Lamp)
async def colour(lamp: Lamp, owner: Owner[Lamp]) -> None:
    before, wanted = lamp.status.colour, lamp.spec.colour
    if not before:
        owner.event("Lit", f"it is {wanted}")
    elif before != wanted:
        owner.event("Recoloured", f"{before} became {wanted}")
    await owner.write_status(LampStatus(colour=wanted))


@operator.finalizes(Lamp)
async def darken(lamp: Lamp, owner: Owner[Lamp]) -> None:
    owner.event("Darkened", f"it was {lamp.status.colour}")
