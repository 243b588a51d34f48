"""Which certificates of a Watcher an operator has revoked, by an annotation on its Kyma.

The annotation is a time: certificates that are valid from before it are refused, and a new one is issued. A time in the
future refuses every certificate until then.
"""

from datetime import UTC, datetime, timedelta

from lifecycle_manager_api import Kyma, names

FOREVER = datetime.max.replace(tzinfo=UTC)


def revoked_before(kyma: Kyma) -> datetime | None:
    """Return the time from which on certificates must be valid at the earliest, or None where none is revoked.

    A value that can't be parsed as a time was meant to revoke something, so it revokes everything. Certificates have
    whole seconds: fractions are rounded up, or no new certificate could ever be new enough.
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
