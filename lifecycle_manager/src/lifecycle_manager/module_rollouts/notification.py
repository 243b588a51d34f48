"""The notification of a rollout's state: a CloudEvent in JSON, signed as Standard Webhooks says. Pure functions."""

import base64
import hashlib
import hmac
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from lifecycle_manager.contract.resources import Secret
from lifecycle_manager_api import ModuleRollout, names

MIN_KEY_BYTES = 24
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"


class NotificationFailed(Exception):
    """A notification could not be sent. The message names neither the key nor the path of the URL."""


class Receiver(NamedTuple):
    """Where notifications are sent, and the key that signs them."""

    url: str
    host: str
    key: bytes

    def __repr__(self) -> str:
        """Name the host alone: the rest is secret."""
        return f"Receiver({self.host})"


class Notification(NamedTuple):
    """What is sent. The id is that of one state: a receiver that gets it twice can tell."""

    id: str
    body: bytes


def receiver_in(secret: Secret | None, name: str, *, allows_http: bool) -> Receiver:
    """Return the receiver that a Secret names. Raises NotificationFailed."""
    if secret is None:
        raise NotificationFailed(f"Secret {names.KCP_NAMESPACE}/{name} does not exist")
    try:
        url = base64.b64decode(secret.data.get("url", "")).decode().strip()
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # an invalid name would fail at each request
        text = base64.b64decode(secret.data.get("key", "")).decode().strip()
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise NotificationFailed(f"Secret {name}: expected a URL in url, and whsec_ with base64 in key") from None
    if parts.scheme not in ({"https", "http"} if allows_http else {"https"}) or not parts.hostname:
        raise NotificationFailed(f"Secret {name}: expected a URL that begins with https://")
    if len(key) < MIN_KEY_BYTES:
        raise NotificationFailed(f"Secret {name}: the key has less than {MIN_KEY_BYTES} bytes")
    return Receiver(url, parts.hostname, key)


def notification_of(rollout: ModuleRollout) -> Notification:
    """Return the notification of the present state."""
    metadata, spec, status = rollout.metadata, rollout.spec, rollout.status
    at = changed_at(rollout)
    state = "-".join(filter(None, (status.phase.lower(), status.wave)))
    found = f"{metadata.uid}-{state}-{int(at.timestamp()) if at is not None else 0}"
    event = {
        "specversion": "1.0",
        "id": found,
        "source": f"/apis/{names.GROUP}/v1alpha1/namespaces/{metadata.namespace}/modulerollouts/{metadata.name}",
        "type": f"{names.GROUP}.modulerollout.{status.phase.lower()}.v1",
        "subject": f"{spec.module_name}/{spec.channel}",
        "datacontenttype": "application/json",
        "data": {
            "module": spec.module_name,
            "channel": spec.channel,
            "version": spec.version,
            "formerVersion": spec.former_version,
            "phase": status.phase,
            "wave": status.wave,
            "message": status.message,
            "clusters": status.clusters,
            "updated": status.updated,
            "failed": status.failed,
            "failedClusters": msgspec.to_builtins(status.failed_clusters),
        },
        **({"time": at.isoformat()} if at is not None else {}),
    }
    return Notification(found, msgspec.json.encode(event))


def changed_at(rollout: ModuleRollout) -> datetime | None:
    """Return when the state began."""
    times = (each.last_transition_time for each in rollout.status.conditions)
    return max((each for each in times if each is not None), default=None)


def headers_of(notification: Notification, key: bytes, now: datetime) -> dict[str, str]:
    """Return the headers of Standard Webhooks: HMAC-SHA256 of id, time and body."""
    sent_at = str(int(now.timestamp()))
    signed = b".".join((notification.id.encode(), sent_at.encode(), notification.body))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "content-type": CONTENT_TYPE,
        "webhook-id": notification.id,
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{signature}",
    }
