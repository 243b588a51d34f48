"""`klm check` and `klm version`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

from kube_runtime import Client, Forbidden, KindUnknown, KubeError, NotFound, Resource
from kyma_certs import describe
from kyma_fleet.checking import findings
from kyma_fleet.checking.findings import Finding
from kyma_fleet.documents import Document, print_document
from kyma_fleet.replicas import read_replicas
from kyma_fleet.reviews import missing_rights, time_of_server
from kyma_fleet.screen import LeftOut, Screen
from kyma_fleet.status import count_kymas
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, WATCHERS, Secret
from lifecycle_manager.watcher_certificates.tls_secret import CERTIFICATE_PURPOSE, key_pair_in
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION

ADMISSION = "admissionregistration.k8s.io"
POLICIES, BINDINGS, WEBHOOKS = (
    Resource.dynamic(ADMISSION, "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    )
)
DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
OUR_DEPLOYMENTS = f"app.kubernetes.io/name={names.LIFECYCLE_MANAGER}"
NEEDED_KINDS = (
    (f"{ADMISSION}/v1", "ValidatingAdmissionPolicy"),
    (f"{ADMISSION}/v1", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("coordination.k8s.io/v1", "Lease"),
    ("events.k8s.io/v1", "Event"),
)
VIEWER = tuple(
    ("list", names.GROUP, plural)
    for plural in ("kymas", "manifests", "moduleconfigs", "modulereleasemetas", "moduletemplates", "syncresources")
)
INSTALLER = (
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", ADMISSION, "validatingadmissionpolicies"),
    ("create", "", "namespaces"),
)


class CheckReport(Document, frozen=True):
    """What each check found."""

    findings: tuple[Finding, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        for each in self.findings:
            screen.print(f"{screen.sign(each.mark)} {plain(each.title).ljust(13)} {plain(each.text)}")
            if each.mark == "bad":
                screen.print(f"{' ' * 16}next:  {plain(each.advice)}")

    def names(self) -> Iterator[str]:
        """Return the checks that fail."""
        return (f"check/{each.title.replace(' ', '-')}" for each in self.findings if each.mark == "bad")


class VersionReport(Document, frozen=True):
    """The versions of klm, of Lifecycle Manager as it is deployed, and of the API server."""

    klm: str
    lifecycle_manager: tuple[str, ...]
    api_server: str

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        screen.print(f"klm                {self.klm}")
        for image in self.lifecycle_manager:
            screen.print(f"Lifecycle Manager  {plain(image)}")
        screen.print(f"API server         {plain(self.api_server or 'not known')}")

    def names(self) -> Iterator[str]:
        """Return what has a version."""
        yield f"deployment.apps/{names.LIFECYCLE_MANAGER}"


async def check(kcp: Client, screen: Screen, lease_namespace: str, *, before_installation: bool) -> int:
    """Print what each check finds. Returns 1 where one fails."""
    found = _before_installation(kcp) if before_installation else _installed(kcp, lease_namespace)
    report = CheckReport(findings=tuple([each async for each in found]))
    print_document(report, screen)
    return 1 if any(each.mark == "bad" for each in report.findings) else 0


async def print_version(kcp: Client, screen: Screen) -> int:
    """Print the versions."""
    try:
        deployments = (await kcp.list(DEPLOYMENTS, names.KCP_NAMESPACE, label_selector=OUR_DEPLOYMENTS)).items
        images = [_image(each) for each in deployments] or ["no Deployment of it in " + names.KCP_NAMESPACE]
    except Forbidden:
        images = ["not known: you may not list Deployments"]
    server = await kcp.server_version()
    print_document(VersionReport(klm=version("kyma-fleet"), lifecycle_manager=tuple(images), api_server=server), screen)
    return 0


def print_own_version(screen: Screen) -> None:
    """Print the version of klm, where no other can be read."""
    print_document(VersionReport(klm=version("kyma-fleet"), lifecycle_manager=(), api_server=""), screen)
    screen.flush()


async def _before_installation(kcp: Client) -> AsyncIterator[Finding]:
    yield findings.of_version(await kcp.server_version())
    yield await _clocks(kcp)
    yield findings.of_kinds([kind for api_version, kind in NEEDED_KINDS if not await _serves(kcp, api_version, kind)])
    yield findings.of_rights("cluster-admin", await missing_rights(kcp, INSTALLER))


async def _installed(kcp: Client, lease_namespace: str) -> AsyncIterator[Finding]:
    yield findings.of_version(await kcp.server_version())
    yield await _clocks(kcp)
    missing = await missing_rights(kcp, VIEWER)
    yield findings.of_rights("the ClusterRole klm-viewer", missing)
    async for each in _crds(kcp):
        yield each
    for title, read in (
        ("module policy", _policy),
        ("webhooks", _webhooks),
        ("Watchers", _watchers),
        ("certificates", _certificates),
        ("replicas", partial(_replicas, lease_namespace)),
        ("clusters", _clusters),
    ):
        yield await _allowed(title, kcp, read)


async def _allowed(title: str, kcp: Client, read: Callable[[Client], Awaitable[Finding]]) -> Finding:
    try:
        return await read(kcp)
    except KubeError as error:
        return findings.not_checked(title, error)


async def _crds(kcp: Client) -> AsyncIterator[Finding]:
    good = 0
    for wanted in all_crds():
        name = wanted["metadata"]["name"]
        try:
            found = await _maybe(kcp, CUSTOM_RESOURCE_DEFINITIONS, name)
        except KubeError as error:
            yield findings.not_checked("CRDs", error)
            return
        problem = findings.of_crd(name, found, wanted)
        good += problem is None
        if problem is not None:
            yield problem
    if good:
        yield Finding("ok", "CRDs", f"{good} are as this version needs them")


async def _policy(kcp: Client) -> Finding:
    found = [await _maybe(kcp, resource, MODULE_AUTHORIZATION) for resource in (POLICIES, BINDINGS)]
    return findings.of_policy(*found)


async def _webhooks(kcp: Client) -> Finding:
    found = await _maybe(kcp, WEBHOOKS, names.LIFECYCLE_MANAGER)
    deployments = (await kcp.list(DEPLOYMENTS, names.KCP_NAMESPACE, label_selector=OUR_DEPLOYMENTS)).items
    containers = (each for item in deployments for each in item["spec"]["template"]["spec"]["containers"])
    is_enabled = any("--enable-webhooks" in (each.get("args") or ()) for each in containers)
    return findings.of_webhooks(found, is_enabled=is_enabled)


async def _watchers(kcp: Client) -> Finding:
    return findings.of_watchers((await kcp.list(WATCHERS, names.KCP_NAMESPACE, unreadable=LeftOut())).items)


async def _replicas(lease_namespace: str, kcp: Client) -> Finding:
    return findings.of_replicas(await read_replicas(kcp, lease_namespace), datetime.now(UTC))


async def _clusters(kcp: Client) -> Finding:
    counts, _ = await count_kymas(kcp, LeftOut())
    return findings.of_clusters(counts)


async def _certificates(kcp: Client) -> Finding:
    expiries: dict[str, datetime | None] = {}
    selector = f"{names.PURPOSE}={CERTIFICATE_PURPOSE}"
    async for page in kcp.pages(SECRETS, names.KCP_NAMESPACE, label_selector=selector, page_size=100):
        expiries |= {each.metadata.name: _end_of(each) for each in page.items}
    return findings.of_certificates(expiries, datetime.now(UTC))


def _end_of(secret: Secret) -> datetime | None:
    pair = key_pair_in(secret)
    return describe(pair.certificate_pem).not_after if pair is not None else None


async def _clocks(kcp: Client) -> Finding:
    before = datetime.now(UTC)
    server = await time_of_server(kcp)
    return findings.of_clocks(before, server, datetime.now(UTC))


async def _serves(kcp: Client, api_version: str, kind: str) -> bool:
    try:
        await kcp.mapper.resource(api_version, kind)
    except KindUnknown:
        return False
    return True


async def _maybe(kcp: Client, resource: Resource[dict[str, Any]], name: str) -> dict[str, Any] | None:
    try:
        return await kcp.get(resource, name)
    except NotFound:
        return None


def _image(deployment: dict[str, Any]) -> str:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    return f"{containers[0]['image']}, {ready} of {deployment['spec'].get('replicas', 1)} replicas ready"
