"""The metric of the event endpoint."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from lifecycle_manager.events.problems import Reason


def refusal_counter(registry: CollectorRegistry) -> Callable[[Reason], None]:
    """Return a function that counts a refused event by its reason; each reason has a series from the start."""
    counter = Counter("lifecycle_mgr_event_refused", "Events that were refused.", ["reason"], registry=registry)
    series = {reason: counter.labels(reason.value) for reason in Reason}
    return lambda reason: series[reason].inc()
