"""Certificates that cert-manager issues: its own CRDs on a real API server, and its own controllers or one played here.

Its CRDs come from its Go module. With CERT_MANAGER_CONTROLLER=build, or the path of the program in cert_manager/, its
own controllers are at work too.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from kube_runtime import SYSTEM_CLOCK, Cache, Client, NotFound, NotServed, ObjectKey, dump_yaml
from kyma_certs import Algorithm, CAs, KeyPair, RotationStep, describe, issued_by
from kyma_local.helm import find_helm
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.options.watcher import LeafRules
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_certificates.ca_store import CAStore
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES, CertManagerStore
from lifecycle_manager.watcher_certificates.certificates import CertificateMemory
from lifecycle_manager.watcher_certificates.issued_certificates import CertificatePending, IssuedCertificates
from lifecycle_manager_api import Kyma, names
from tests.integration.cert_manager import (
    ALGORITHMS,
    fetch_crds,
    find_controller,
    now,
    run_controller,
    simulate_controller,
)
from tests.integration.charts.helm import LIFECYCLE_MANAGER, Helm, values
from tests.integration.skr_webhook.kymas import have_control_plane, register
from tests.waiting import eventually

NAMESPACE = names.KCP_NAMESPACE


@pytest.fixture(scope="session")
def crds(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fetch_crds(tmp_path_factory.mktemp("cert-manager"))


@pytest_asyncio.fixture
async def kcp_with_cert_manager(client: Client, crds: str) -> Client:
    """A control plane in which cert-manager is installed, but for its controller."""
    await apply_objects(client, crds)
    return client


class Setting:
    """A store of a Kyma's certificate, with a cache of the Secret."""

    def __init__(
        self, client: Client, kyma: Kyma, rules: LeafRules, of: type[IssuedCertificates] = CertManagerStore
    ) -> None:
        self.client = client
        self.registered = kyma
        self.name = name = kyma.metadata.name
        self.cas = CAStore(client, SYSTEM_CLOCK, name=f"{name}-ca")
        self.memory = CertificateMemory()
        self.cache: Any = Cache()
        secrets: Any = SimpleNamespace(get=self.cache.get)
        self.store = of(client, secrets, SYSTEM_CLOCK, rules, ca_secret=self.cas.name, issuer=f"{name}-issuer")

    def kyma(self, **annotations: str) -> Kyma:
        return replace(self.registered, metadata=replace(self.registered.metadata, annotations=annotations))

    async def ensured(self, cas: CAs, **annotations: str) -> KeyPair:
        """Ensure the certificate until it is issued, as the controller does."""

        async def attempt() -> KeyPair | None:
            key = ObjectKey(NAMESPACE, f"{self.name}-webhook-tls")
            with suppress(NotFound, NotServed):
                self.cache.put(key, await self.client.get(SECRETS, key.name, key.namespace))
            try:
                return await self.store.ensure(self.kyma(**annotations), cas, self.memory)
            except CertificatePending:
                return None

        return await eventually(attempt, within=60)


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_controller(tmp_path_factory.mktemp("controller"))


@pytest_asyncio.fixture(params=["played", "real"])
async def working_issuer(
    request: pytest.FixtureRequest, kcp_with_cert_manager: Client, kcp: Path, tmp_path: Path
) -> AsyncIterator[Client]:
    if request.param == "played":
        at_work = simulate_controller(kcp_with_cert_manager)
    else:
        at_work = run_controller(request.getfixturevalue("controller"), kcp, tmp_path / "cert-manager.log")
    async with at_work:
        yield kcp_with_cert_manager


async def test_certificate_has_the_fields_of_cert_manager(working_issuer: Client) -> None:
    rules = LeafRules(lifetime=timedelta(days=90), renew_before=timedelta(days=60))
    setting = Setting(working_issuer, kyma := await register(working_issuer, "asking"), rules)
    cas = (await setting.cas.ensure()).cas
    pair = await setting.ensured(cas, **{names.SKR_DOMAIN: "skr.example"})
    assert issued_by(pair.certificate_pem, cas.signing.certificate_pem)
    secret_name = f"{setting.name}-webhook-tls"
    certificate = await working_issuer.get(CERTIFICATES, secret_name, NAMESPACE)
    spec = certificate["spec"]
    assert (spec["secretName"], spec["commonName"]) == (secret_name, setting.name)
    assert "skr.example" in spec["dnsNames"]
    assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "Issuer", "name": f"{setting.name}-issuer"}
    assert {"client auth", "server auth"} <= set(spec["usages"])
    assert (spec["duration"], spec["renewBefore"]) == ("2160h0m0s", "1440h0m0s")
    assert [each["uid"] for each in certificate["metadata"]["ownerReferences"]] == [kyma.metadata.uid]
    secret = await working_issuer.get(SECRETS, secret_name, NAMESPACE)
    assert secret.metadata.labels[names.MANAGED_BY] == names.LIFECYCLE_MANAGER, "or the informer would not select it"
    assert [each.uid for each in secret.metadata.owner_references] == [kyma.metadata.uid], (
        "or it would outlive its Kyma"
    )


async def test_certificate_is_pending_while_nobody_issues_it(kcp_with_cert_manager: Client) -> None:
    setting = Setting(kcp_with_cert_manager, await register(kcp_with_cert_manager, "waiting"), LeafRules())
    cas = (await setting.cas.ensure()).cas
    with pytest.raises(CertificatePending):
        await setting.store.ensure(setting.kyma(), cas, setting.memory)


async def test_certificate_follows_a_rotation_and_a_revocation(working_issuer: Client) -> None:
    setting = Setting(working_issuer, await register(working_issuer, "following-cm"), LeafRules())
    stored = await setting.cas.ensure()
    first = await setting.ensured(stored.cas)
    stored = await setting.cas.take(RotationStep.ANNOUNCE, stored)
    assert await setting.ensured(stored.cas) == first
    stored = await setting.cas.take(RotationStep.SWITCH, stored)
    second = await setting.ensured(stored.cas)
    assert issued_by(second.certificate_pem, stored.cas.signing.certificate_pem)
    setting.memory = CertificateMemory()  # a renewal is requested again only after a while
    moment = now()
    third = await setting.ensured(stored.cas, **{names.REVOKED_BEFORE: moment.isoformat()})
    assert describe(third.certificate_pem).not_before >= moment


async def test_ca_that_lifecycle_manager_created_stays_with_that_of_the_chart(
    kcp_with_cert_manager: Client, controller: Path, kcp: Path, tmp_path: Path
) -> None:
    """With another one every Watcher would be refused until it has a new certificate."""
    client, store = kcp_with_cert_manager, CAStore(kcp_with_cert_manager, SYSTEM_CLOCK)
    await have_control_plane(client)
    created = (await store.ensure()).cas
    rendered = await Helm(find_helm(), tmp_path).render(LIFECYCLE_MANAGER, *values(certManager__enabled=True))
    objects = [each for each in rendered if each["apiVersion"] == CERTIFICATES.api_version]
    await apply_objects(client, "---\n".join(map(dump_yaml, objects)))

    async def is_ready() -> bool:
        status = (await client.get(CERTIFICATES, "lifecycle-manager-ca", NAMESPACE)).get("status", {})
        return ("Ready", "True") in {(each["type"], each["status"]) for each in status.get("conditions", [])}

    async with run_controller(controller, kcp, tmp_path / "cert-manager.log"):
        await eventually(is_ready, within=60)
    await client.delete(CERTIFICATES, "lifecycle-manager-ca", NAMESPACE)  # the played controller knows no CAs
    assert (await store.ensure()).cas == created


@pytest.mark.parametrize("algorithm", [Algorithm.ECDSA_P256, Algorithm.ED25519])
async def test_kind_of_key_is_cert_managers_to_make(working_issuer: Client, algorithm: Algorithm) -> None:
    name = f"key-{algorithm.value.lower().replace('_', '-')}"
    setting = Setting(working_issuer, await register(working_issuer, name), LeafRules(algorithm=algorithm.value))
    await setting.ensured((await setting.cas.ensure()).cas)
    spec = (await working_issuer.get(CERTIFICATES, f"{setting.name}-webhook-tls", NAMESPACE))["spec"]
    assert ALGORITHMS[spec["privateKey"]["algorithm"]] is algorithm
    assert spec["privateKey"]["rotationPolicy"] == "Always"
