"""A limit on how often something is done: so many at once, and so many a second on average.

As in kube_runtime, whose import would take more memory than the whole program.
"""


class WatcherRateLimit:
    """Allows `burst` at once and `per_second` on average. What was done is a debt in seconds, which time pays back."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._seconds = 1 / per_second
        self._free = (burst - 1) / per_second
        self._debt = 0.0
        self._at = float("-inf")

    def wait(self, now: float) -> float:
        """Return the seconds until the next one is allowed: 0 at once."""
        return max(0.0, self._debt_at(now) - self._free)

    def take(self, now: float) -> float:
        """Count one, and return how many seconds from now it is allowed: 0 at once."""
        wait = self.wait(now)
        self._debt, self._at = self._debt_at(now) + self._seconds, now
        return wait

    def _debt_at(self, now: float) -> float:
        return max(0.0, self._debt - max(0.0, now - self._at))
