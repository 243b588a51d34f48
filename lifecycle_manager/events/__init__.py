"""The event endpoint: what Watchers tell, verified before it is believed.

`identity` finds out who sends, `guards` keeps out replays and floods, `endpoint` answers as the contract says, and
`serving` runs it with mutual TLS. What an event leads to is the business of its subscriber.
"""

from lifecycle_manager.events.endpoint import EndpointOptions, Subscriber, UnknownRuntime, VerifiedEvent, create_app
from lifecycle_manager.events.serving import serve_events

__all__ = ["EndpointOptions", "Subscriber", "UnknownRuntime", "VerifiedEvent", "create_app", "serve_events"]
