"""The CPU time that SKRs may cost for what their users make large, whatever they edit and how often."""

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True, weakref_slot=True)
class CpuBudget:
    """CPU seconds that are left: `burst` at once, and a `share` of each second that passes. May be overdrawn once.

    What is taken is taken from the budget `of_all` as well, which many have in common. `now` is the monotonic time in
    seconds.
    """

    share: float = 0.05
    burst: float = 0.5
    of_all: "CpuBudget | None" = None
    _left: float = field(init=False)
    _at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._left = self.burst

    def wait(self, now: float) -> float:
        """Return the seconds until there is something left; 0 where there is."""
        self._refill(now)
        of_all = self.of_all.wait(now) if self.of_all is not None else 0.0
        return max(of_all, -self._left / self.share)

    def charge(self, seconds: float, now: float) -> None:
        self._refill(now)
        self._left -= seconds
        if self.of_all is not None:
            self.of_all.charge(seconds, now)

    def _refill(self, now: float) -> None:
        self._left = min(self.burst, self._left + max(0.0, now - self._at) * self.share)
        self._at = now
