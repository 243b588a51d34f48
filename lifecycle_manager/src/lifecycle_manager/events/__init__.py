"""The event endpoint: events of Watchers are verified, and published as signals.

`arrival` finds out how a request arrived, `identity` who sent it, `guards` refuses replays and floods, `endpoint`
answers as the contract says, `publishing` turns an event into signals, and `resyncs` limits how often everything of a
Kyma is read again.
"""

from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, Subscriber, UnknownRuntime, VerifiedEvent
from lifecycle_manager.events.identity import FormerWatchers
from lifecycle_manager.events.metrics import refusal_counter
from lifecycle_manager.events.problems import Reason
from lifecycle_manager.events.publishing import EventPublisher, managers_of
from lifecycle_manager.events.resyncs import setup

__all__ = [
    "EndpointOptions",
    "EventEndpoint",
    "EventPublisher",
    "FormerWatchers",
    "Reason",
    "Subscriber",
    "UnknownRuntime",
    "VerifiedEvent",
    "managers_of",
    "refusal_counter",
    "setup",
]
