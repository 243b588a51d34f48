"""Which of several members a key belongs to: the same answer everywhere, and few keys move when members change."""

import hashlib
from collections.abc import Collection

__all__ = ["rendezvous"]


def rendezvous(key: str, members: Collection[str]) -> str | None:
    """Return the member that a key belongs to, None where there are no members.

    Each member draws a number for the key, and the highest has it: so a new member takes only what it draws highest
    for, and one that leaves gives its keys to all others alike.
    """
    return max(members, key=lambda member: _draw(key, member), default=None)


def _draw(key: str, member: str) -> tuple[bytes, str]:
    return hashlib.blake2b(f"{member}\0{key}".encode(), digest_size=8).digest(), member
