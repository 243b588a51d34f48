"""What a Watcher's certificate may contain."""

from datetime import UTC, datetime, timedelta

import pytest

from kyma_certs import CAs, NameRefused, announced, create_ca, dropped, issue, switched
from lifecycle_manager.options.shared import EventNames
from lifecycle_manager.options.watcher import LeafRules
from lifecycle_manager.watcher_certificates.certificates import (
    CertificatesRevoked,
    NameReserved,
    is_overdue,
    request_of,
)
from lifecycle_manager_api import names
from tests import builders

NOW = datetime(2026, 11, 1, tzinfo=UTC)
RULES = LeafRules(event_names=EventNames(address="listener.kcp.example:443"))


@pytest.mark.parametrize("runtime", ["listener.kcp.example", "Listener.KCP.example"])
def test_runtime_with_a_name_of_the_control_plane_gets_no_certificate(runtime: str) -> None:
    with pytest.raises(NameReserved, match="runtime id"):
        request_of(RULES, builders.kyma(labels={names.RUNTIME_ID: runtime}), NOW)


@pytest.mark.parametrize("domain", ["listener.kcp.example", "*.kcp.example"])
def test_cluster_with_a_domain_of_the_control_plane_gets_no_certificate(domain: str) -> None:
    with pytest.raises(NameReserved, match="skr-domain"):
        request_of(RULES, builders.kyma(annotations={names.SKR_DOMAIN: domain}), NOW)


@pytest.mark.parametrize(
    ("annotation", "text", "error"),
    [
        (names.SKR_DOMAIN, "https://skr.example", NameRefused),
        (names.SKR_DOMAIN, "skr.example.", NameRefused),
        (names.REVOKED_BEFORE, "today", CertificatesRevoked),
    ],
)
def test_annotation_that_nothing_can_be_made_of_is_named(annotation: str, text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"annotation {annotation}: '{text}' is no "):
        request_of(RULES, builders.kyma(annotations={annotation: text}), NOW)


def test_certificate_of_a_former_ca_that_nobody_replaces_is_overdue_after_the_buffer() -> None:
    issuing, following = (create_ca(name, lifetime=timedelta(days=3650), now=NOW) for name in ("one", "two"))
    request = request_of(RULES, builders.kyma(labels={names.RUNTIME_ID: "mine"}), NOW)
    certificate = issue(issuing, request, now=NOW).certificate_pem
    announcing = announced(CAs(issuing), following, now=NOW)
    switching = switched(announcing, now=NOW)
    later = NOW + RULES.renewal_buffer
    assert not is_overdue(RULES, certificate, announcing, later)
    assert not is_overdue(RULES, certificate, switching, NOW)
    assert is_overdue(RULES, certificate, switching, later)
    assert is_overdue(RULES, certificate, dropped(switching), NOW), "it is not trusted any more"
