"""How events look on their way from one replica to another: some at once, and an answer for each."""

import msgspec

from lifecycle_manager.events import VerifiedEvent
from lifecycle_manager_api import names

REPLICA_HOST = f"replica.{names.LIFECYCLE_MANAGER}.{names.KCP_NAMESPACE}"
"""The name by which replicas know each other's certificates; no Watcher is given one that bears it."""

PATH = "/events"
MOST_AT_ONCE = 64
LARGEST_BODY = MOST_AT_ONCE * 64 * 1024


class Handed(msgspec.Struct, frozen=True):
    """An event as it was where its sender was verified, and the Kyma for which it is handed over."""

    kyma: str
    verified: VerifiedEvent


class Answer(msgspec.Struct, frozen=True):
    """Which of them were not taken, by their places."""

    refused: tuple[int, ...] = ()


def encode(message: list[Handed] | Answer) -> bytes:
    """Return a message as it is sent."""
    return msgspec.json.encode(message)


def decode_handed(body: bytes) -> list[Handed]:
    """Return what was handed over. Raises msgspec.DecodeError; what is not known of it is left out."""
    return msgspec.json.decode(body, type=list[Handed])


def decode_answer(body: bytes) -> Answer:
    """Return the answer. Raises msgspec.DecodeError."""
    return msgspec.json.decode(body, type=Answer)
