"""Gardener's certificate management in a control plane of the tests: its CRDs as far as we use them, and a simulation.

The fields are those of gardener/cert-management (pkg/apis/cert/v1alpha1), and so is what the simulation does.
"""

import base64
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Any

from kube_runtime import Client
from kyma_certs import LeafRequest, describe
from lifecycle_manager.gardener.certificates import CERTIFICATES, ISSUERS
from lifecycle_manager_api import names
from tests.integration.cert_manager import ALGORITHMS, find_secret, issue_into, looking_at_all, now

NAMESPACE = names.KCP_NAMESPACE
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


def simulate_gardener(client: Client) -> AbstractAsyncContextManager[None]:
    """Issue certificates that are missing, other than wanted, or requested again, until the block ends."""
    return looking_at_all(client, CERTIFICATES, partial(_issue, client))


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
