"""Options that would break certificates are refused at start."""

from typing import Any

import pytest

from lifecycle_manager.options.endpoints import EndpointSettings
from lifecycle_manager.options.modules import ManifestSettings
from lifecycle_manager.options.watcher import CertificateSettings
from lifecycle_manager.settings import Settings, SettingsInvalid


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"self_signed_cert_duration": "10h", "self_signed_cert_renew_before": "10h"}, "shorter"),
        ({"self_signed_ca_renew_before": "24h"}, "at least self-signed-cert-duration"),
        ({"self_signed_ca_duration": "8000h"}, "shorter than self-signed-ca-duration"),
        ({"self_signed_cert_key_algorithm": "RSA"}, "accept-unsigned-events"),
        ({"trusted_proxy_cidrs": ["10.0.0.0/33"]}, "network"),
        ({"additional_dns_names": ["https://kcp.example"]}, "additional-dns-names: .*'https://kcp.example'"),
        ({"cert_management": "cert.gardener.cloud/v1alpha1", "self_signed_cert_key_algorithm": "ED25519"}, "Gardener"),
        ({"watcher_virtual_services": True}, "trusted-proxy-cidrs"),
        (
            {"watcher_virtual_services": True, "trusted_proxy_cidrs": ["10.0.0.0/8"], "kyma_selector": ["a=b"]},
            "the former version routes events",
        ),
    ],
)
def test_harmful_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsInvalid, match=complaint):
        Settings(options)


def test_spaces_around_the_parts_of_a_list_are_no_part_of_them() -> None:
    settings = Settings({"additional_dns_names": "a.example, b.example ,", "restricted_default_modules": ["one, two"]})
    assert settings[CertificateSettings].leaf.event_names.additional == ("a.example", "b.example")
    assert settings[ManifestSettings].restricted_modules == ("one", "two")


def test_interoperability_is_off_unless_asked_for() -> None:
    settings = Settings()
    assert not settings[EndpointSettings].accept_unsigned_events
    assert settings[EndpointSettings].trusted_proxies == ()


def test_upstreams_options_are_taken() -> None:
    settings = Settings(
        {
            "self_signed_cert_key_algorithm": "RSA",
            "accept_unsigned_events": True,
        }
    )
    assert settings[CertificateSettings].leaf.rsa_key_size == 4096
