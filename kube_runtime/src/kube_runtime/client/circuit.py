"""Keeps a server that gives no answer from holding up everybody who asks it.

After a request without an answer the circuit is open: whatever is asked fails at once with the same words, until a
probe is answered. So a cluster that accepts connections and stays silent costs one time-out, and after that a probe now
and then.
"""

from kube_runtime.exceptions import ClusterUnreachable

__all__ = ["Circuit"]


class Circuit:
    """Whether a server is asked. One that is not `enabled` never opens."""

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
        """Take note of a request that got no answer."""
        if self._enabled and self._failure is None:
            self._failure = error

    def answered(self) -> None:
        """Take note of an answer, whatever it said."""
        self._failure = None
