"""cert-manager in a control plane of the tests: its CRDs, and its controllers or a simulated one.

Its CRDs come from its Go module. With CERT_MANAGER_CONTROLLER=build, or the path of the program in
skr_webhook/cert_manager, its own controllers run; building them takes minutes.
"""

import asyncio
import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import AlreadyExists, Client, Conflict, NotFound, NotServed, Resource
from kyma_certs import Algorithm, KeyPair, LeafRequest, describe, issue
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES, ISSUERS
from lifecycle_manager_api import names

MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
NAMESPACE = names.KCP_NAMESPACE
CONTROLLER = "CERT_MANAGER_CONTROLLER"
KINDS = ("certificates", "certificaterequests", "issuers", "clusterissuers")
ALGORITHMS = {"ECDSA": Algorithm.ECDSA_P256, "Ed25519": Algorithm.ED25519, "RSA": Algorithm.RSA}

RIGHTS = f"""{files("lifecycle_manager.rbac").joinpath("kcp-cert-manager.yaml").read_text()}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: lifecycle-manager-cert-manager, namespace: kcp-system}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: lifecycle-manager-cert-manager}}
subjects: [{{kind: ServiceAccount, name: lifecycle-manager, namespace: kcp-system}}]
"""


def fetch_crds(folder: Path) -> str:
    """Return the CRDs of a release of cert-manager, from its Go module; skip the test without Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs a Go toolchain, which fetches cert-manager's module")
    (folder / "go.mod").write_text("module probe\n")
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    deployed = Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    return "\n---\n".join((deployed / f"cert-manager.io_{kind}.yaml").read_text() for kind in KINDS)


def find_controller(folder: Path) -> Path:
    """Return the program with cert-manager's own controllers, built on request; skip the test without it."""
    given = os.environ.get(CONTROLLER)
    if not given:
        pytest.skip(f"{CONTROLLER} is not set: give the program in cert_manager/, or `build` to have it built")
    if given != "build":
        return Path(given)
    target = folder / "cert-manager"
    source = Path(__file__).with_name("skr_webhook") / "cert_manager"
    subprocess.run(["go", "build", "-o", target, "."], cwd=source, timeout=1800, check=True)
    return target


def run_controller(program: Path, kubeconfig: Path, log: Path) -> AbstractAsyncContextManager[None]:
    return run_program((str(program), f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}"), log)


@asynccontextmanager
async def run_program(command: tuple[str, ...], log: Path) -> AsyncGenerator[None, None]:
    """Run a controller of certificates until the block ends."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.kill()
            await process.wait()


def simulate_controller(client: Client) -> AbstractAsyncContextManager[None]:
    """Simulate cert-manager's controller: issue certificates that are missing or requested again."""
    return looking_at_all(client, CERTIFICATES, partial(_issue, client))


@asynccontextmanager
async def looking_at_all(
    client: Client, certificates: Resource[dict[str, Any]], issue: Callable[[dict[str, Any]], Awaitable[None]]
) -> AsyncGenerator[None, None]:
    """Look at all certificates over and over, as a controller of certificates does, until the block ends."""

    async def work() -> None:
        while True:
            for certificate in (await client.list(certificates, NAMESPACE)).items:
                try:
                    await issue(certificate)
                except (Conflict, NotFound, AlreadyExists):
                    continue
            await asyncio.sleep(0.25)

    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work())
        yield
        working.cancel()


async def _issue(client: Client, certificate: dict[str, Any]) -> None:
    spec, name = certificate["spec"], certificate["metadata"]["name"]
    conditions = certificate.get("status", {}).get("conditions", [])
    requested = any(each["type"] == "Issuing" and each["status"] == "True" for each in conditions)
    former = await find_secret(client, spec["secretName"])
    if former is not None and not requested:
        shown = describe(base64.b64decode(former.data["tls.crt"]))
        if (shown.common_name, set(shown.dns_names)) == (spec["commonName"], set(spec["dnsNames"])):
            return
    issuer = await client.get(ISSUERS, spec["issuerRef"]["name"], NAMESPACE)
    request = LeafRequest(
        common_name=spec["commonName"],
        dns_names=tuple(spec["dnsNames"]),
        algorithm=ALGORITHMS[spec["privateKey"]["algorithm"]],
        not_before=now(),  # cert-manager uses the current time
    )
    labels = spec["secretTemplate"]["labels"]
    await issue_into(client, spec["secretName"], request, ca_secret=issuer["spec"]["ca"]["secretName"], labels=labels)
    if requested:
        # With the resourceVersion, so that a newer request is not removed; after a Conflict it issues once more.
        read = {"resourceVersion": certificate["metadata"]["resourceVersion"]}
        others = [each for each in conditions if each["type"] != "Issuing"]
        patch = {"metadata": read, "status": {"conditions": others}}
        await client.merge_patch(CERTIFICATES, name, patch, NAMESPACE, subresource="status")


async def issue_into(
    client: Client, name: str, request: LeafRequest, *, ca_secret: str, labels: dict[str, str]
) -> None:
    """Issue a certificate by the CA in a Secret, and apply the Secret with it."""
    secret = await client.get(SECRETS, ca_secret, NAMESPACE)
    ca = KeyPair(base64.b64decode(secret.data["tls.crt"]), base64.b64decode(secret.data["tls.key"]))
    pair = issue(ca, request, now=now())
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca.certificate_pem}
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "type": "kubernetes.io/tls",
        "data": {entry: base64.b64encode(content).decode() for entry, content in data.items()},
    }
    await client.apply(SECRETS, name, document, NAMESPACE, field_manager="issuer")


async def find_secret(client: Client, name: str) -> Any:
    """Return a Secret, None where it does not exist."""
    try:
        return await client.get(SECRETS, name, NAMESPACE)
    except (NotFound, NotServed):
        return None


def now() -> datetime:
    """Return the current time in seconds, as cert-manager writes it."""
    return datetime.now(UTC).replace(microsecond=0)
