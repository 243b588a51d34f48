"""What the rest of LM knows of the Watcher in an SKR: which events are canaries, and which of them were asked for.

A Watcher could send answers to canaries that never reached it, so that a broken path looked sound. So a canary has a
challenge that only this process can make, and an answer counts for the Kyma and the time that its challenge names.
"""

import hashlib
import hmac
import secrets
from functools import lru_cache

from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager_api import WatchEvent, names

CANARY = ObjectReference("", "ServiceAccount", names.SKR_NAMESPACE, "skr-webhook")
"""The object that LM writes to test the event path: it exists anyway, and only LM writes it."""

HEARTBEAT = "HEARTBEAT"
RESYNC = "RESYNC"
CANARY_HEARTBEAT = "canary"
"""The name in a heartbeat by which the Watcher answers a dry run of that write."""


_KEY = secrets.token_bytes(32)
ANSWER_SECONDS = 60.0


def challenge_for(kyma: str, at: float) -> str:
    """Return the challenge of a canary that is sent to the SKR of a Kyma, at a monotonic time."""
    return _challenge(kyma, f"{at:.0f}")


@lru_cache(maxsize=4096)
def _challenge(kyma: str, moment: str) -> str:
    """Return the challenge of a moment. It is needed again for the answer, which mostly arrives soon."""
    return f"{moment}-{hmac.digest(_KEY, f'{moment} {kyma}'.encode(), hashlib.sha256).hex()[:32]}"


def is_answer(event: WatchEvent, kyma: str, now: float) -> bool:
    """Tell whether an event answers a canary that was sent to the SKR of a Kyma shortly before."""
    moment = event.challenge.partition("-")[0]
    if not is_canary(event) or not moment.isdecimal() or not -1.0 <= now - float(moment) <= ANSWER_SECONDS:
        return False
    return hmac.compare_digest(event.challenge.encode(), challenge_for(kyma, float(moment)).encode())


def is_canary(event: WatchEvent) -> bool:
    """Tell whether an event answers a test of the event path."""
    gvk, watched = event.watched_gvk, event.watched
    if event.operation == HEARTBEAT:
        return watched.name == CANARY_HEARTBEAT
    return (gvk.group, gvk.kind, watched.namespace, watched.name) == CANARY
