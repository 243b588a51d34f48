"""The certificates that an operator's annotation revokes."""

from datetime import UTC, datetime

import pytest

from lifecycle_manager.skr.revocation import FOREVER, revoked_before
from lifecycle_manager_api import names
from tests import builders

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", None),
        ("2026-11-01T12:00:00Z", NOON),
        ("2026-11-01T12:00:00", NOON),
        ("2026-11-01T14:00:00+02:00", NOON),
        (" 2026-11-01T12:00:00Z ", NOON),
        ("2026-11-01T11:59:59.5Z", NOON),
        ("9999-12-31T23:59:59.9Z", FOREVER),
        ("now", FOREVER),
        ("yes, please", FOREVER),
    ],
)
def test_annotation_is_a_time_and_any_other_value_revokes_everything(text: str, moment: datetime | None) -> None:
    assert revoked_before(builders.kyma(annotations={names.REVOKED_BEFORE: text})) == moment
