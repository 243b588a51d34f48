"""Rendezvous hashing: every process computes the same owner of a key, and few keys move when members change."""

import hashlib
from collections.abc import Collection

__all__ = ["rendezvous"]


def rendezvous(key: str, members: Collection[str]) -> str | None:
    """Return the member that a key belongs to, None where there are no members.

    Each member has a number for each key, and the highest one owns it: a new member takes only keys for which it has
    the highest, and one that leaves gives its keys to all others evenly.
    """
    if len(members) == 1:
        return next(iter(members))
    return max(members, key=lambda member: _draw(key, member), default=None)


def _draw(key: str, member: str) -> tuple[bytes, str]:
    return hashlib.blake2b(f"{member}\0{key}".encode(), digest_size=8).digest(), member
