"""The least: a kind, and a function that is called for each of its objects. It greets in their status."""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator, Owner

operator = Operator("minimal")


class GreetingSpec(Struct, frozen=True, kw_only=True):
    name: str = "world"
    """Who is greeted."""


class GreetingStatus(Struct, frozen=True, kw_only=True):
    message: str = ""
    """The greeting."""


class Greeting(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "minimal.example.com"
    spec: GreetingSpec = GreetingSpec()
    """What is wanted."""
    status: GreetingStatus = GreetingStatus()
    """What there is."""


@operator.reconciles(Greeting)
async def greet(greeting: Greeting, owner: Owner[Greeting]) -> None:
    await owner.write_status(GreetingStatus(message=f"hello {greeting.spec.name}"))
