"""The messages between replicas: a batch of events, and which of them were refused."""

import msgspec

from lifecycle_manager.events.endpoint import VerifiedEvent

PATH = "/events"
MAX_BATCH = 64
MAX_BODY_BYTES = MAX_BATCH * 64 * 1024


class Handed(msgspec.Struct, frozen=True):
    """A verified event, and the Kyma for which it is handed over."""

    kyma: str
    verified: VerifiedEvent


class DeliveryResult(msgspec.Struct, frozen=True):
    refused: tuple[int, ...] = ()
