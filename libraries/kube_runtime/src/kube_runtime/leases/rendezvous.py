"""Rendezvous hashing: every process computes the same owner of a key, and few keys move when members change."""

import hashlib
from functools import lru_cache

REMEMBERED = 10_000
"""The owners of how many keys are remembered: each change of an object asks for that of its key, several times."""


@lru_cache(maxsize=REMEMBERED)
def rendezvous(key: str, members: tuple[str, ...]) -> str | None:
    """Return the member that a key belongs to, None where there are no members.

    Each member has a number for each key, and the highest one owns it: a new member takes only keys for which it has
    the highest, and one that leaves gives its keys to all others evenly.
    """
    return max(members, key=lambda member: _draw(key, member), default=None)


def _draw(key: str, member: str) -> tuple[bytes, str]:
    return hashlib.blake2b(f"{member}\0{key}".encode(), digest_size=8).digest(), member
