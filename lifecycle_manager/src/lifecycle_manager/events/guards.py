"""Protection against replays, and against senders that would flood the endpoint. Bounded in memory."""

import hashlib
from collections import OrderedDict


class Nonces:
    """Remembers each nonce while its signature is valid.

    Bounded by time, and by `limit`, beyond which the oldest are dropped. Each process has its own: a message that
    another replica took, or this one before a restart, can be replayed once while its signature is valid. That is
    accepted, because an event can cause a read and nothing else.
    """

    def __init__(self, limit: int = 500_000) -> None:
        self._limit = limit
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def knows(self, keyid: str, nonce: str) -> bool:
        """Tell whether a nonce was used with a key."""
        return digest_of(keyid, nonce) in self._until

    def remember(self, keyid: str, nonce: str, until: float, now: float) -> None:
        while self._until and (len(self._until) >= self._limit or next(iter(self._until.values())) < now):
            self._until.popitem(last=False)
        self._until[digest_of(keyid, nonce)] = until


class Rates:
    """A token bucket for each runtime. A clock that is set back removes no tokens."""

    def __init__(self, per_second: float, burst: int, limit: int = 50_000) -> None:
        self._per_second = per_second
        self._burst = burst
        self._limit = limit
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
        while len(self._buckets) > self._limit:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - tokens) / self._per_second


def digest_of(*texts: str) -> bytes:
    """Return a digest of 16 bytes, so that long nonces take no more memory than short ones."""
    return hashlib.blake2b(" ".join(texts).encode(), digest_size=16).digest()
