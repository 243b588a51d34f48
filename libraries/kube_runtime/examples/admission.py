"""Objects are completed and checked before they are stored: kube-runtime run admission.py --webhooks 127.0.0.1:9443."""

from typing import ClassVar

from msgspec.structs import replace

from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator, Review

operator = Operator("admission")


class CakeSpec(Struct, frozen=True, kw_only=True):
    flavour: str
    """What it tastes of."""
    pieces: int = 0
    """Into how many it is cut."""


class Cake(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "admission.example.com"
    spec: CakeSpec
    """What is wanted."""


@operator.mutates(Cake, operations=["CREATE"])
def cut(cake: Cake, _review: Review[Cake]) -> Cake | None:
    return None if cake.spec.pieces else replace(cake, spec=replace(cake.spec, pieces=12))


@operator.validates(Cake)
def taste(cake: Cake, review: Review[Cake]) -> str | None:
    if cake.spec.flavour == "soap":
        return "nobody likes soap"
    if review.old is not None and review.old.spec.pieces > cake.spec.pieces:
        return f"{review.user} may not glue pieces together"
    if cake.spec.pieces % 2:
        review.warnings.append("the pieces are hard to share")
    return None
