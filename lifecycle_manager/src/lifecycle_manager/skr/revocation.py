"""Which certificates of a cluster's Watcher an operator has declared void, by an annotation on its Kyma.

The annotation is a point in time: what begins before it is refused from that moment on, and a new certificate takes its
place. A time to come refuses every certificate until then.
"""

from datetime import UTC, datetime, timedelta

from lifecycle_manager_api import Kyma, names

FOREVER = datetime.max.replace(tzinfo=UTC)


def revoked_before(kyma: Kyma) -> datetime | None:
    """Return before which time a certificate must not begin, or None where nothing is revoked.

    What can't be read as a time was meant to revoke something, so it revokes everything. Certificates know whole
    seconds only: a part of one counts as the next, or a new certificate could never be new enough.
    """
    text = kyma.metadata.annotations.get(names.REVOKED_BEFORE, "").strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.microsecond:
            moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    except (ValueError, OverflowError):
        return FOREVER
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
