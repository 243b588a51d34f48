"""Certificates that Gardener's certificate management issues, which runs itself or is simulated."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client
from kyma_certs import RotationStep, describe, issued_by
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.options.watcher import LeafRules
from lifecycle_manager.watcher_certificates.certificates import CertificateMemory
from lifecycle_manager.watcher_certificates.gardener import CERTIFICATES, ISSUERS, GardenerStore
from lifecycle_manager.watcher_certificates.issued_certificates import CertificatePending
from lifecycle_manager_api import names
from tests.integration.cert_manager import now
from tests.integration.gardener import run_gardener, simulate_gardener
from tests.integration.restricted import restricted
from tests.integration.skr_webhook.kymas import have_control_plane, register
from tests.integration.skr_webhook.test_cert_manager import Setting

NAMESPACE = names.KCP_NAMESPACE


@pytest_asyncio.fixture(params=["played", "real"])
async def gardener(request: pytest.FixtureRequest, client: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Client]:
    """Ours, with its roles, in a control plane in which Gardener's certificate management works."""
    is_real = request.param == "real"
    at_work = run_gardener(client, kcp, tmp_path / "gardener.log") if is_real else simulate_gardener(client)
    await have_control_plane(client)
    async with at_work, restricted(client, kcp, "kcp", "kcp-gardener") as ours:
        yield ours


async def setting_of(gardener: Client, client: Client, name: str, rules: LeafRules | None = None) -> Setting:
    return Setting(gardener, await register(client, name), rules or LeafRules(), GardenerStore)


async def test_certificate_has_the_fields_of_gardener(gardener: Client, client: Client) -> None:
    setting = await setting_of(gardener, client, "gardening")
    cas = (await setting.cas.ensure()).cas

    pair = await setting.ensured(cas, **{names.SKR_DOMAIN: "skr.example"})

    assert issued_by(pair.certificate_pem, cas.signing.certificate_pem)
    name = f"{setting.name}-webhook-tls"
    issuer = await client.get(ISSUERS, f"{setting.name}-issuer", NAMESPACE)
    assert issuer["spec"] == {"ca": {"privateKeySecretRef": {"name": setting.cas.name, "namespace": NAMESPACE}}}
    spec = (await client.get(CERTIFICATES, name, NAMESPACE))["spec"]
    assert (spec["secretName"], spec["commonName"]) == (name, setting.name)
    assert "skr.example" in spec["dnsNames"]
    assert spec["issuerRef"] == {"name": f"{setting.name}-issuer", "namespace": NAMESPACE}
    assert (spec["duration"], spec["renewBefore"]) == ("2160h0m0s", "1440h0m0s")
    assert spec["privateKey"] == {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8"}
    secret = await gardener.get(SECRETS, name, NAMESPACE)
    assert secret.metadata.labels[names.MANAGED_BY] == names.LIFECYCLE_MANAGER, "or the informer would not select it"
    assert [each.uid for each in secret.metadata.owner_references] == [setting.registered.metadata.uid]


async def test_certificate_of_gardener_follows_a_rotation_and_a_revocation(gardener: Client, client: Client) -> None:
    setting = await setting_of(gardener, client, "following-gardener")
    stored = await setting.cas.ensure()
    first = await setting.ensured(stored.cas)
    assert await setting.ensured(stored.cas) == first, "the common name among the DNS names is no reason to renew it"
    stored = await setting.cas.take(RotationStep.SWITCH, await setting.cas.take(RotationStep.ANNOUNCE, stored))
    second = await setting.ensured(stored.cas)
    assert issued_by(second.certificate_pem, stored.cas.signing.certificate_pem)
    setting.memory = CertificateMemory()  # a renewal is requested again only after a while
    moment = now()
    third = await setting.ensured(stored.cas, **{names.REVOKED_BEFORE: moment.isoformat()})
    assert describe(third.certificate_pem).not_before >= moment


async def test_rsa_key_is_gardeners_to_make(gardener: Client, client: Client) -> None:
    setting = await setting_of(gardener, client, "gardening-rsa", LeafRules(algorithm="RSA"))
    with pytest.raises(CertificatePending):
        await setting.store.ensure(setting.kyma(), (await setting.cas.ensure()).cas, setting.memory)
    spec = (await client.get(CERTIFICATES, f"{setting.name}-webhook-tls", NAMESPACE))["spec"]
    assert spec["privateKey"] == {"algorithm": "RSA", "size": 4096, "encoding": "PKCS8"}
