"""A circuit breaker: a server that does not respond does not delay every request.

After a request without a response the circuit is open: every request fails at once with the same error, until a probe
gets a response. A cluster that accepts connections and stays silent costs one timeout, and then a probe periodically.
"""

from kube_runtime.exceptions import ClusterUnreachable, without_frames


class Circuit:
    """Whether requests are sent to a server. A circuit that is not `enabled` never opens."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._failure: ClusterUnreachable | None = None

    @property
    def failure(self) -> ClusterUnreachable | None:
        """What opened the circuit; None while it is closed."""
        return self._failure

    def check(self) -> None:
        """Raise ClusterUnreachable while the circuit is open."""
        if self._failure is not None:
            raise ClusterUnreachable(str(self._failure))

    def failed(self, error: ClusterUnreachable) -> None:
        """Report a request without a response."""
        if self._enabled and self._failure is None:
            self._failure = without_frames(error)

    def answered(self) -> None:
        """Report a response, whatever its status."""
        self._failure = None
