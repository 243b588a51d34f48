"""What keeps one sender from repeating itself and from drowning the others. Both are bounded in memory."""

from collections import OrderedDict


class Nonces:
    """Remembers the nonces of a while. What is forgotten is older than a signature may be."""

    def __init__(self, keep_seconds: float, most: int = 200_000) -> None:
        self._keep_seconds = keep_seconds
        self._most = most
        self._seen: OrderedDict[tuple[str, str], float] = OrderedDict()

    def is_new(self, keyid: str, nonce: str, now: float) -> bool:
        """Remember a nonce; return whether it was new."""
        while self._seen and (
            len(self._seen) > self._most or next(iter(self._seen.values())) < now - self._keep_seconds
        ):
            self._seen.popitem(last=False)
        key = (keyid, nonce)
        if key in self._seen:
            return False
        self._seen[key] = now
        return True


class Rates:
    """A token bucket for each runtime."""

    def __init__(self, per_second: float, burst: int, most: int = 50_000) -> None:
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def exhausted(self, runtime: str, now: float) -> float:
        """Return the seconds until there is a token, 0 where there is one; none is taken."""
        if runtime not in self._buckets:
            return 0.0
        tokens, since = self._buckets[runtime]
        return max(0.0, (1 - tokens) / self._per_second - (now - since))

    def wait(self, runtime: str, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        tokens, since = self._buckets.pop(runtime, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        enough = tokens >= 1
        self._buckets[runtime] = (tokens - 1 if enough else tokens, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - tokens) / self._per_second


class Peers:
    """Which runtime is behind a TLS connection's certificate, where one of its events was verified before.

    So a runtime that is over its rate is told so before anything of its event is verified. What a header says of a
    sender is no ground for that: it would let anybody use up the rate of another.
    """

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._runtimes: OrderedDict[bytes, str] = OrderedDict()

    def remember(self, peer_der: bytes | None, runtime: str) -> None:
        """Note whose certificate this is."""
        if peer_der is not None and peer_der not in self._runtimes:
            self._runtimes[peer_der] = runtime
            if len(self._runtimes) > self._most:
                self._runtimes.popitem(last=False)

    def runtime_of(self, peer_der: bytes | None) -> str | None:
        """Return whose certificate this is, as far as it is known."""
        return self._runtimes.get(peer_der) if peer_der is not None else None
