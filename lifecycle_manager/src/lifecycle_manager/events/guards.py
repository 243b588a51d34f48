"""What keeps one sender from repeating itself and from drowning the others. Both are bounded in memory."""

import hashlib
from collections import OrderedDict


class Nonces:
    """Remembers each nonce for as long as its signature holds.

    It is bounded twice: by time, and by `most`, at which the oldest are forgotten. It is this process's alone: a
    message that another replica took, or this one before a restart, can be sent once more while its signature holds.
    That is allowed for, because an event can cause a read and nothing else.
    """

    def __init__(self, most: int = 500_000) -> None:
        self._most = most
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def knows(self, keyid: str, nonce: str) -> bool:
        """Tell whether a nonce was used with a key."""
        return _digest(keyid, nonce) in self._until

    def remember(self, keyid: str, nonce: str, until: float, now: float) -> None:
        """Remember a nonce until a time, and forget those whose time has passed."""
        while self._until and (len(self._until) >= self._most or next(iter(self._until.values())) < now):
            self._until.popitem(last=False)
        self._until[_digest(keyid, nonce)] = until


class Rates:
    """A token bucket for each runtime. A clock that is put back takes no tokens away."""

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
        return max(0.0, (1 - tokens) / self._per_second - max(0.0, now - since))

    def wait(self, runtime: str, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        tokens, since = self._buckets.pop(runtime, (float(self._burst), now))
        tokens = min(self._burst, tokens + max(0.0, now - since) * self._per_second)
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


def _digest(keyid: str, nonce: str) -> bytes:
    """Return 16 bytes that stand for a nonce, so that long ones take no more room than short ones."""
    return hashlib.blake2b(f"{keyid} {nonce}".encode(), digest_size=16).digest()
