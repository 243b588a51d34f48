"""Who is signed in: tokens by the session ids of browsers, in memory alone, so that a restart signs everybody out.

Cookies ignore ports: a browser sends them to every program on the same host. So no cookie has a token.
"""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from kube_runtime import Clock

MAX_SESSIONS = 1000
MAX_OF_ONE_USER = 10
SECONDS = 8 * 3600.0


@dataclass(frozen=True, slots=True)
class _Session:
    user: str
    token: str = field(repr=False)
    until: float


@dataclass(eq=False)
class OperatorSessions:
    """Bounded in number, for each user as well, and time; the oldest end first. Only digests of ids are kept."""

    clock: Clock
    _kept: OrderedDict[bytes, _Session] = field(default_factory=OrderedDict, repr=False)

    def start(self, user: str, token: str) -> str:
        """Keep a token; return the id of its session."""
        of_user = [each for each, session in self._kept.items() if session.user == user]
        for each in of_user[: max(0, len(of_user) + 1 - MAX_OF_ONE_USER)]:
            del self._kept[each]
        while len(self._kept) >= MAX_SESSIONS:
            self._kept.popitem(last=False)
        session = secrets.token_urlsafe(32)
        self._kept[_digest(session)] = _Session(user, token, self.clock.monotonic() + SECONDS)
        return session

    def token_of(self, session: str) -> str:
        """Return the token of a session; nothing where there is none."""
        known = self._kept.get(_digest(session))
        return known.token if known is not None and known.until > self.clock.monotonic() else ""

    def end(self, session: str) -> None:
        """Forget a session."""
        self._kept.pop(_digest(session), None)


def _digest(session: str) -> bytes:
    return hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=32).digest()
