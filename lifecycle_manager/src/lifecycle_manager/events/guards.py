"""Protection against replays, bounded in memory."""

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


def digest_of(*texts: str) -> bytes:
    """Return a digest of 16 bytes, so that long nonces take no more memory than short ones."""
    return hashlib.blake2b(" ".join(texts).encode(), digest_size=16).digest()
