"""The event endpoint: events of Watchers are verified, and published as signals.

`arrival` finds out how a request arrived, `identity` who sent it, `guards` refuses replays and floods, `endpoint`
answers as the contract says, and `publishing` turns an event into signals.
"""

from lifecycle_manager.events.endpoint import EndpointOptions, Subscriber, UnknownRuntime, VerifiedEvent, create_app
from lifecycle_manager.events.metrics import refusal_counter
from lifecycle_manager.events.problems import Reason
from lifecycle_manager.events.publishing import EventPublisher, ManagerPaths

__all__ = [
    "EndpointOptions",
    "EventPublisher",
    "ManagerPaths",
    "Reason",
    "Subscriber",
    "UnknownRuntime",
    "VerifiedEvent",
    "create_app",
    "refusal_counter",
]
