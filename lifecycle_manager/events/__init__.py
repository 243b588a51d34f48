"""The event endpoint: what Watchers tell, verified before it is believed.

`identity` finds out who sends, `guards` keeps out replays and floods, and `endpoint` answers as the contract says. What
an event leads to is the business of its subscriber.
"""

from lifecycle_manager.events.endpoint import EndpointOptions, Subscriber, UnknownRuntime, VerifiedEvent, create_app

__all__ = ["EndpointOptions", "Subscriber", "UnknownRuntime", "VerifiedEvent", "create_app"]
