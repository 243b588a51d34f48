"""Gardener's certificate management in a control plane of the tests: the program itself, or a simulation of it.

With GARDENER_CERT_MANAGEMENT=path of the program `cert-controller-manager` that runs, with the CRDs it installs. It
is built from the source of gardener/cert-management by `go build ./cmd/cert-controller-manager`.

The simulation has its CRDs as far as we use them, with the fields of pkg/apis/cert/v1alpha1 there.
"""

import base64
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, KubeError
from kyma_certs import LeafRequest, describe
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager.watcher_certificates.gardener import CERTIFICATES, ISSUERS
from lifecycle_manager_api import names
from tests.integration.cert_manager import ALGORITHMS, find_secret, issue_into, looking_at_all, now, run_program
from tests.waiting import eventually

NAMESPACE = names.KCP_NAMESPACE
PROGRAM = "GARDENER_CERT_MANAGEMENT"
DNS_ENTRIES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dnsentries.dns.gardener.cloud}
spec:
  group: dns.gardener.cloud
  names: {kind: DNSEntry, listKind: DNSEntryList, plural: dnsentries, singular: dnsentry}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
"""Of another program of Gardener's, for challenges by DNS: the program does not start without it."""
CRDS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert.gardener.cloud}
spec:
  group: cert.gardener.cloud
  names: {kind: Issuer, listKind: IssuerList, plural: issuers, singular: issuer}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                ca:
                  type: object
                  properties:
                    privateKeySecretRef:
                      type: object
                      properties: {name: {type: string}, namespace: {type: string}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert.gardener.cloud}
spec:
  group: cert.gardener.cloud
  names: {kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                commonName: {type: string, maxLength: 64}
                dnsNames: {type: array, items: {type: string}}
                issuerRef:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, namespace: {type: string}}
                secretName: {type: string}
                secretLabels: {type: object, additionalProperties: {type: string}}
                renew: {type: boolean}
                renewBefore: {type: string}
                ensureRenewedAfter: {type: string, format: date-time}
                duration: {type: string}
                privateKey:
                  type: object
                  properties:
                    algorithm: {type: string, enum: [RSA, ECDSA]}
                    size: {type: integer, format: int32, enum: [256, 384, 2048, 3072, 4096]}
                    encoding: {type: string, enum: [PKCS1, PKCS8]}
"""


@asynccontextmanager
async def run_gardener(client: Client, kubeconfig: Path, log: Path) -> AsyncGenerator[None, None]:
    """Run the program until the block ends, and wait for its CRDs; skip the test without the program."""
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.skip(f"{PROGRAM} is not set: give the program cert-controller-manager of Gardener's cert-management")
    await apply_objects(client, DNS_ENTRIES)
    places = (f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", f"--issuer-namespace={NAMESPACE}")
    async with run_program((program, *places, "--controllers=issuer", "--omit-lease"), log):
        await eventually(partial(_is_served, client), what=f"the CRDs, see {log}", within=30)
        yield


@asynccontextmanager
async def simulate_gardener(client: Client) -> AsyncGenerator[None, None]:
    """Issue certificates that are missing, other than wanted, or requested again, until the block ends."""
    await apply_objects(client, CRDS)
    async with looking_at_all(client, CERTIFICATES, partial(_issue, client)):
        yield


async def _is_served(client: Client) -> bool:
    try:
        return all([await client.list(each, NAMESPACE) for each in (ISSUERS, CERTIFICATES)])
    except KubeError:
        return False


async def _issue(client: Client, certificate: dict[str, Any]) -> None:
    spec, metadata = certificate["spec"], certificate["metadata"]
    if spec.get("renew"):
        # What is valid from before this time is issued again, now and ever after.
        renewed = {"renew": None, "ensureRenewedAfter": now().isoformat()}
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": renewed}
        await client.merge_patch(CERTIFICATES, metadata["name"], patch, NAMESPACE, field_manager="cert-controller")
        return
    wanted = (spec["commonName"], {spec["commonName"], *spec["dnsNames"]})
    former = await find_secret(client, spec["secretName"])
    if former is not None:
        shown = describe(base64.b64decode(former.data["tls.crt"]))
        due = spec.get("ensureRenewedAfter")
        is_old = due is not None and shown.not_before.isoformat() < due.replace("Z", "+00:00")
        if (shown.common_name, set(shown.dns_names)) == wanted and not is_old:
            return
    issuer = await client.get(ISSUERS, spec["issuerRef"]["name"], spec["issuerRef"]["namespace"])
    request = LeafRequest(
        common_name=spec["commonName"],
        dns_names=(spec["commonName"], *spec["dnsNames"]),
        algorithm=ALGORITHMS[spec["privateKey"]["algorithm"]],
        not_before=now() + timedelta(seconds=1) if former is not None else now(),
    )
    ca = issuer["spec"]["ca"]["privateKeySecretRef"]["name"]
    await issue_into(client, spec["secretName"], request, ca_secret=ca, labels=spec["secretLabels"])
