"""What a Watcher's certificate may contain."""

from datetime import UTC, datetime

import pytest

from lifecycle_manager.contract.options import EventNames
from lifecycle_manager.watcher_certificates import LeafRules
from lifecycle_manager.watcher_certificates.certificates import NameReserved
from lifecycle_manager_api import names
from tests import builders

NOW = datetime(2026, 11, 1, tzinfo=UTC)
RULES = LeafRules(event_names=EventNames(address="listener.kcp.example:443"))


@pytest.mark.parametrize("runtime", ["listener.kcp.example", "Listener.KCP.example"])
def test_runtime_with_a_name_of_the_control_plane_gets_no_certificate(runtime: str) -> None:
    with pytest.raises(NameReserved, match="runtime id"):
        RULES.request(builders.kyma(labels={names.RUNTIME_ID: runtime}), NOW)


@pytest.mark.parametrize("domain", ["listener.kcp.example", "*.kcp.example"])
def test_cluster_with_a_domain_of_the_control_plane_gets_no_certificate(domain: str) -> None:
    with pytest.raises(NameReserved, match="skr-domain"):
        RULES.request(builders.kyma(annotations={names.SKR_DOMAIN: domain}), NOW)
