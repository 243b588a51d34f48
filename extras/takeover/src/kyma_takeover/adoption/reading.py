"""Reads a control plane that the former version manages, page by page."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from kube_runtime import (
    Client,
    Forbidden,
    KubeconfigInvalid,
    KubeconfigPolicy,
    KubeconfigRefused,
    NotFound,
    ObjectUnreadable,
    Resource,
)
from kube_runtime.client.kubeconfig import connection_from_kubeconfig
from kyma_certs import describe
from kyma_fleet.checking.command import DEPLOYMENTS
from kyma_fleet.replicas import Replica, read_replicas
from kyma_takeover.adoption.counts import Counts, FormerSecrets
from kyma_takeover.adoption.deployment import Deployment, former_deployments
from kyma_takeover.certificates import CA_SECRET, GATEWAY_SECRET, read_secret
from kyma_takeover.lease import LEASE, LEASES
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
    WATCHERS,
    Secret,
)
from lifecycle_manager.skr.access import AccessSecretIncomplete, kubeconfig_in
from lifecycle_manager_api import ModuleReleaseMeta, ObjectMeta, names

ACCESSES = "access Secrets"
SECRETS_PAGE = 100
LEAVES = f"{names.PURPOSE}=klm-watcher-cert-manager"


class MetadataOnly(msgspec.Struct, frozen=True):
    """An object that is only marked, whatever else is in it."""

    metadata: ObjectMeta


def bare(resource: Resource[Any]) -> Resource[MetadataOnly]:
    """Return a kind with the metadata of its objects alone: one that does not fit its type is not in the way."""
    return replace(resource, type=MetadataOnly)


@dataclass(eq=False)
class FormerControlPlane:
    """What was read. `unread`: what the operator may not read, by its title, and why."""

    server_version: str
    deployments: list[Deployment] = field(default_factory=list)
    lease: dict[str, Any] | None = None
    replicas: list[Replica] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    templates: int = 0
    releases: int = 0
    for_nobody: list[str] = field(default_factory=list)
    watchers: int = 0
    secrets: FormerSecrets | None = None
    read_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    unread: dict[str, str] = field(default_factory=dict)


async def read_control_plane(
    kcp: Client,
    *,
    lease_namespace: str,
    ca_namespace: str,
    policy: KubeconfigPolicy,
    left_out: Callable[[ObjectUnreadable], None],
) -> FormerControlPlane:
    """Read everything once. What the operator may not read is left out and named. Raises KubeError."""
    found = FormerControlPlane(await kcp.server_version())
    reader = _Reader(kcp, found, policy, left_out)
    await reader.kymas()
    await reader.manifests()
    parts: dict[str, Callable[[], Awaitable[None]]] = {
        "Deployment": reader.deployments,
        "Leases": lambda: reader.leases(lease_namespace),
        "catalog": reader.catalog,
        ACCESSES: reader.accesses,
        "certificates": lambda: reader.former_secrets(ca_namespace),
    }
    for title, read in parts.items():
        try:
            await read()
        except Forbidden as error:
            found.unread[title] = str(error)
    return found


@dataclass(frozen=True)
class _Reader:
    kcp: Client
    found: FormerControlPlane
    policy: KubeconfigPolicy
    left_out: Callable[[ObjectUnreadable], None]

    async def kymas(self) -> None:
        async for page in self.kcp.pages(KYMAS, names.KCP_NAMESPACE, unreadable=self.left_out):
            for kyma in page.items:
                self.found.counts.add_kyma(kyma)

    async def manifests(self) -> None:
        async for page in self.kcp.pages(MANIFESTS, names.KCP_NAMESPACE, unreadable=self.left_out):
            for manifest in page.items:
                self.found.counts.add_manifest(manifest)

    async def deployments(self) -> None:
        async for page in self.kcp.pages(DEPLOYMENTS, names.KCP_NAMESPACE):
            self.found.deployments += former_deployments(page.items)

    async def leases(self, namespace: str) -> None:
        self.found.lease = await former_lease(self.kcp)
        self.found.replicas = list(await read_replicas(self.kcp, namespace))

    async def catalog(self) -> None:
        async for templates in self.kcp.pages(MODULE_TEMPLATES, names.KCP_NAMESPACE, unreadable=self.left_out):
            self.found.templates += len(templates.items)
        async for releases in self.kcp.pages(MODULE_RELEASE_METAS, names.KCP_NAMESPACE, unreadable=self.left_out):
            self.found.releases += len(releases.items)
            self.found.for_nobody += [each.metadata.name for each in releases.items if _selects_nobody(each)]
        self.found.watchers = len((await self.kcp.list(WATCHERS, names.KCP_NAMESPACE)).items)

    async def accesses(self) -> None:
        async for secret in access_secrets(self.kcp):
            labels = secret.metadata.labels
            self.found.counts.add_access(
                labels[names.KYMA_NAME],
                secret.metadata.name,
                is_labelled=labels.get(names.MANAGED_BY) == names.LIFECYCLE_MANAGER,
                refusal=await _refusal(secret, self.policy),
            )

    async def former_secrets(self, namespace: str) -> None:
        """Read what there is of the CA and the certificates of the former version."""
        ca, gateway = [await read_secret(self.kcp, each, namespace) for each in (CA_SECRET, GATEWAY_SECRET)]
        leaves = 0
        async for page in self.kcp.pages(SECRETS, namespace, label_selector=LEAVES, page_size=SECRETS_PAGE):
            leaves += len(page.items)
        until: datetime | None = None
        with suppress(KeyError, ValueError):
            until = describe(base64.b64decode(ca.data["tls.crt"])).not_after if ca is not None else None
        self.found.secrets = FormerSecrets(namespace, ca is not None, until, gateway is not None, leaves)


async def former_lease(kcp: Client) -> dict[str, Any] | None:
    """Return the Lease of the former version; None where there is none. Raises KubeError."""
    try:
        return await kcp.get(LEASES, LEASE, names.KCP_NAMESPACE)
    except NotFound:
        return None


async def access_secrets(kcp: Client) -> AsyncIterator[Secret]:
    """Yield the Secrets that the former version takes for access Secrets, without those that this one issued."""
    async for page in kcp.pages(SECRETS, names.KCP_NAMESPACE, label_selector=names.KYMA_NAME, page_size=SECRETS_PAGE):
        for secret in page.items:
            if names.PURPOSE not in secret.metadata.labels:
                yield secret


async def _refusal(secret: Secret, policy: KubeconfigPolicy) -> str:
    """Return why the kubeconfig of an access Secret is not used; empty where it is. It is read, and nothing is sent."""
    try:
        await connection_from_kubeconfig(kubeconfig_in(secret), policy)
    except AccessSecretIncomplete:
        return "no readable kubeconfig under the key 'config'"
    except (KubeconfigInvalid, KubeconfigRefused) as error:
        return str(error)
    return ""


def _selects_nobody(release: ModuleReleaseMeta) -> bool:
    selector = release.spec.kyma_selector
    return selector is not None and not selector.match_labels and not selector.match_expressions
