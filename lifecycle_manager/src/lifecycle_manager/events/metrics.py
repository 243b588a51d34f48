"""What the event endpoint counts."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from lifecycle_manager.events.problems import Reason


def refusal_counter(registry: CollectorRegistry) -> Callable[[Reason], None]:
    """Return what counts an event that was not taken, by why; each reason has its series from the start."""
    counter = Counter("lifecycle_mgr_event_refused", "Events that were not taken.", ["reason"], registry=registry)
    series = {reason: counter.labels(reason.value) for reason in Reason}
    return lambda reason: series[reason].inc()
