"""Certificates that cert-manager issues: its own CRDs on a real API server, and its own controllers or one played here.

Its CRDs come from its Go module. With CERT_MANAGER_CONTROLLER=build, or the path of the program in cert_manager/, its
own controllers are at work too.
"""

import asyncio
import base64
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from certs import Algorithm, Authorities, KeyPair, LeafRequest, Step, describe, issue, issued_by
from kube_runtime import AlreadyExists, Client, Conflict, NotFound, ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.crd_installation import apply_objects
from lifecycle_manager.resources import NAMESPACES, SECRETS
from lifecycle_manager.skr_webhook import AuthorityStore, CertificatePending, CertManagerStore, LeafRules
from lifecycle_manager.skr_webhook.cert_manager import CERTIFICATES, ISSUERS
from lifecycle_manager_api import Kyma, names
from tests import builders
from tests.waiting import eventually

MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
NAMESPACE = names.KCP_NAMESPACE
CONTROLLER = "CERT_MANAGER_CONTROLLER"
KINDS = ("certificates", "certificaterequests", "issuers", "clusterissuers")
UID = "11111111-1111-1111-1111-111111111111"
ALGORITHMS = {"ECDSA": Algorithm.ECDSA_P256, "Ed25519": Algorithm.ED25519, "RSA": Algorithm.RSA}


@pytest.fixture(scope="session")
def crds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The CRDs of a release of cert-manager, from its Go module."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs a Go toolchain, which fetches cert-manager's module")
    folder = tmp_path_factory.mktemp("cert-manager")
    (folder / "go.mod").write_text("module probe\n")
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    deployed = Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    return "\n---\n".join((deployed / f"cert-manager.io_{kind}.yaml").read_text() for kind in KINDS)


@pytest_asyncio.fixture
async def kcp_with_cert_manager(client: Client, crds: str) -> Client:
    """A control plane in which cert-manager is installed, but for its controller."""
    await apply_objects(client, crds)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}}, field_manager="test")
    except AlreadyExists:
        return client
    return client


class Setting:
    """A store of a Kyma's certificate, with a cache that follows the Secret."""

    def __init__(self, client: Client, name: str, rules: LeafRules) -> None:
        self.client = client
        self.name = name = f"{name}-{uuid.uuid4().hex[:6]}"
        self.authority = AuthorityStore(client, now, name=f"{name}-authority")
        self.cache: Any = Cache({})
        secrets: Any = SimpleNamespace(cache=self.cache)
        self.store = CertManagerStore(client, secrets, now, rules, self.authority.name, f"{name}-issuer")

    def kyma(self, **annotations: str) -> Kyma:
        return builders.kyma(self.name, uid=UID, annotations=annotations)

    async def ensured(self, authorities: Authorities, **annotations: str) -> KeyPair:
        """Ensure the certificate until it is there, as the reconciler does."""

        async def attempt() -> KeyPair | None:
            key = ObjectKey(NAMESPACE, f"{self.name}-webhook-tls")
            with suppress(NotFound):
                self.cache.put(key, await self.client.get(SECRETS, key.name, key.namespace))
            try:
                return await self.store.ensure(self.kyma(**annotations), authorities)
            except CertificatePending:
                return None

        return await eventually(attempt, within=30)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@asynccontextmanager
async def issuer_at_work(client: Client) -> AsyncGenerator[None, None]:
    """Play cert-manager's controller: issue what is wanted and not there, or is to be issued anew."""

    async def work() -> None:
        while True:
            for certificate in (await client.list(CERTIFICATES, NAMESPACE)).items:
                try:
                    await _issue(client, certificate)
                except (Conflict, NotFound, AlreadyExists):
                    continue
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work())
        yield
        working.cancel()


async def _issue(client: Client, certificate: dict[str, Any]) -> None:
    spec, name = certificate["spec"], certificate["metadata"]["name"]
    conditions = certificate.get("status", {}).get("conditions", [])
    told = any(each["type"] == "Issuing" and each["status"] == "True" for each in conditions)
    former = await _secret(client, spec["secretName"])
    if former is not None and not told:
        shown = describe(base64.b64decode(former.data["tls.crt"]))
        if (shown.common_name, set(shown.dns_names)) == (spec["commonName"], set(spec["dnsNames"])):
            return
    issuer = await client.get(ISSUERS, spec["issuerRef"]["name"], NAMESPACE)
    ca = await client.get(SECRETS, issuer["spec"]["ca"]["secretName"], NAMESPACE)
    authority = KeyPair(base64.b64decode(ca.data["tls.crt"]), base64.b64decode(ca.data["tls.key"]))
    key = spec["privateKey"]
    request = LeafRequest(
        common_name=spec["commonName"],
        dns_names=tuple(spec["dnsNames"]),
        algorithm=ALGORITHMS[key["algorithm"]],
        not_before=now(),  # cert-manager does not date back
    )
    pair = issue(authority, request, now=now())
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": authority.certificate_pem}
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec["secretName"], "namespace": NAMESPACE, "labels": spec["secretTemplate"]["labels"]},
        "type": "kubernetes.io/tls",
        "data": {entry: base64.b64encode(content).decode() for entry, content in data.items()},
    }
    await client.apply(SECRETS, spec["secretName"], document, NAMESPACE, field_manager="cert-manager")
    if told:
        patch = {"status": {"conditions": [each for each in conditions if each["type"] != "Issuing"]}}
        await client.merge_patch(CERTIFICATES, name, patch, NAMESPACE, subresource="status")


async def _secret(client: Client, name: str) -> Any:
    try:
        return await client.get(SECRETS, name, NAMESPACE)
    except NotFound:
        return None


@pytest.fixture(scope="session")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cert-manager's own controllers. Building them takes minutes, so it is done only where somebody asks for it."""
    given = os.environ.get(CONTROLLER)
    if not given:
        pytest.skip(f"{CONTROLLER} is not set: give the program in cert_manager/, or `build` to have it built")
    if given != "build":
        return Path(given)
    target = tmp_path_factory.mktemp("controller") / "cert-manager"
    source = Path(__file__).with_name("cert_manager")
    subprocess.run(["go", "build", "-o", target, "."], cwd=source, timeout=1800, check=True)
    return target


@asynccontextmanager
async def controller_at_work(program: Path, kubeconfig: Path, log: Path) -> AsyncGenerator[None, None]:
    """Run cert-manager's own controllers."""
    command = (str(program), f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.kill()
            await process.wait()


@pytest_asyncio.fixture(params=["played", "real"])
async def working_issuer(
    request: pytest.FixtureRequest, kcp_with_cert_manager: Client, kcp: Path, tmp_path: Path
) -> AsyncIterator[Client]:
    if request.param == "played":
        at_work = issuer_at_work(kcp_with_cert_manager)
    else:
        at_work = controller_at_work(request.getfixturevalue("controller"), kcp, tmp_path / "cert-manager.log")
    async with at_work:
        yield kcp_with_cert_manager


async def test_certificate_is_asked_for_in_the_words_of_cert_manager(working_issuer: Client) -> None:
    setting = Setting(working_issuer, "asking", LeafRules(lifetime=timedelta(days=90), renew_before=timedelta(days=60)))
    authorities = (await setting.authority.ensure()).authorities
    pair = await setting.ensured(authorities, **{names.SKR_DOMAIN: "skr.example"})
    assert issued_by(pair.certificate_pem, authorities.signing.certificate_pem)
    secret_name = f"{setting.name}-webhook-tls"
    certificate = await working_issuer.get(CERTIFICATES, secret_name, NAMESPACE)
    spec = certificate["spec"]
    assert (spec["secretName"], spec["commonName"]) == (secret_name, setting.name)
    assert "skr.example" in spec["dnsNames"]
    assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "Issuer", "name": f"{setting.name}-issuer"}
    assert {"client auth", "server auth"} <= set(spec["usages"])
    assert (spec["duration"], spec["renewBefore"]) == ("2160h0m0s", "1440h0m0s")
    assert [each["uid"] for each in certificate["metadata"]["ownerReferences"]] == [UID]
    secret = await working_issuer.get(SECRETS, secret_name, NAMESPACE)
    assert secret.metadata.labels[names.MANAGED_BY] == names.LIFECYCLE_MANAGER, "or we would not follow it"
    assert [each.uid for each in secret.metadata.owner_references] == [UID], "or it would outlive its Kyma"


async def test_certificate_is_pending_while_nobody_issues_it(kcp_with_cert_manager: Client) -> None:
    setting = Setting(kcp_with_cert_manager, "waiting", LeafRules())
    authorities = (await setting.authority.ensure()).authorities
    with pytest.raises(CertificatePending):
        await setting.store.ensure(setting.kyma(), authorities)


async def test_certificate_follows_a_rotation_and_a_revocation(working_issuer: Client) -> None:
    setting = Setting(working_issuer, "following-cm", LeafRules())
    stored = await setting.authority.ensure()
    first = await setting.ensured(stored.authorities)
    stored = await setting.authority.take(Step.ANNOUNCE, stored)
    assert await setting.ensured(stored.authorities) == first
    stored = await setting.authority.take(Step.SWITCH, stored)
    second = await setting.ensured(stored.authorities)
    assert issued_by(second.certificate_pem, stored.authorities.signing.certificate_pem)
    setting.store._told.clear()  # it is told again only after a while
    moment = now()
    third = await setting.ensured(stored.authorities, **{names.REVOKED_BEFORE: moment.isoformat()})
    assert describe(third.certificate_pem).not_before >= moment


@pytest.mark.parametrize("algorithm", [Algorithm.ECDSA_P256, Algorithm.ED25519])
async def test_kind_of_key_is_cert_managers_to_make(working_issuer: Client, algorithm: Algorithm) -> None:
    name = f"key-{algorithm.value.lower().replace('_', '-')}"
    setting = Setting(working_issuer, name, LeafRules(algorithm=algorithm))
    await setting.ensured((await setting.authority.ensure()).authorities)
    spec = (await working_issuer.get(CERTIFICATES, f"{setting.name}-webhook-tls", NAMESPACE))["spec"]
    assert ALGORITHMS[spec["privateKey"]["algorithm"]] is algorithm
    assert spec["privateKey"]["rotationPolicy"] == "Always"
