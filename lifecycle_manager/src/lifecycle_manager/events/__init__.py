"""The event endpoint: what Watchers tell, verified before it is believed.

`arrival` tells how a request came, `identity` finds out who sends, `guards` keeps out replays and floods, and
`endpoint` answers as the contract says. What an event leads to is the business of its subscriber.
"""

from lifecycle_manager.events.endpoint import EndpointOptions, Subscriber, UnknownRuntime, VerifiedEvent, create_app
from lifecycle_manager.events.metrics import refusal_counter
from lifecycle_manager.events.problems import Reason

__all__ = [
    "EndpointOptions",
    "Reason",
    "Subscriber",
    "UnknownRuntime",
    "VerifiedEvent",
    "create_app",
    "refusal_counter",
]
