"""A function that is called every two seconds, and at once after a change."""

import logging
from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator, Owner

log = logging.getLogger("timers")
operator = Operator("timers")


class ClockSpec(Struct, frozen=True, kw_only=True):
    sound: str = "tick"
    """What it says."""


class Clock(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "timers.example.com"
    spec: ClockSpec = ClockSpec()
    """What is wanted."""


@operator.reconciles(Clock, every=2)
async def tick(clock: Clock, owner: Owner[Clock]) -> None:
    log.info("%s says %s", owner.key.name, clock.spec.sound)
