"""The clusters of the demo, prepared as administrators and module teams would prepare them."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from kube_runtime import Client, dump_yaml, parse_objects
from kyma_demo import names
from kyma_fleet.identities import create_identity
from kyma_local.clusters import LocalClusters
from kyma_local.nodes.node import Nodes
from kyma_local.private_files import write_private
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import names as api_names
from lifecycle_manager_api.module_authorization import module_authorization_as_yaml

WEBHOOK_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "lifecycle-manager-webhook", "namespace": names.KCP_NAMESPACE},
    "spec": {"ports": [{"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": 9443}]},
}
WEBHOOK_CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "lifecycle-manager"},
}
SAMPLE = files("kyma_module_manager.samples.cloud_resources")


@dataclass(frozen=True, eq=False)
class Environment:
    """Two clusters with clients of their administrators. `clusters` is None for existing ones."""

    kcp: Client
    skr: Client
    kcp_kubeconfig: Path
    skr_kubeconfig: Path
    directory: Path
    clusters: LocalClusters | None

    @property
    def kcp_routes(self) -> Path | None:
        """The file of routes from KCP's Services to local processes; None for a cluster that cannot reach them."""
        return _routes_beside(self.kcp_kubeconfig)

    @property
    def skr_routes(self) -> Path | None:
        """The file of routes from the SKR's Services to local processes; None for a cluster that cannot reach them."""
        return _routes_beside(self.skr_kubeconfig)

    @property
    def logs(self) -> Path:
        """The folder of the programs' logs."""
        return self.directory / "logs"


@asynccontextmanager
async def open_environment(
    directory: Path, kcp_kubeconfig: Path | None, skr_kubeconfig: Path | None, nodes: Nodes | None = None
) -> AsyncIterator[Environment]:
    """Start local clusters, with nodes if given, or use those of the given kubeconfigs."""
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    if kcp_kubeconfig is not None and skr_kubeconfig is not None:
        async with _clients(kcp_kubeconfig, skr_kubeconfig) as (kcp, skr):
            yield Environment(kcp, skr, kcp_kubeconfig, skr_kubeconfig, directory, None)
        return
    async with LocalClusters.start(skrs=1, directory=directory / "clusters", nodes=nodes) as clusters:
        local_kcp, local_skr = clusters.kcp, clusters.skrs[0]
        async with _clients(local_kcp.admin_kubeconfig, local_skr.admin_kubeconfig) as (kcp, skr):
            yield Environment(kcp, skr, local_kcp.admin_kubeconfig, local_skr.admin_kubeconfig, directory, clusters)


async def prepare_kcp(environment: Environment) -> tuple[Path, Path]:
    """Install the control plane's resources; return the kubeconfigs of the Lifecycle Manager and the Module Manager."""
    await _ensure_namespaces(
        environment.kcp,
        names.KCP_NAMESPACE,
        names.SCRATCH_NAMESPACE,
        api_names.KCP_LEASE_NAMESPACE,
        lease_namespace_of(names.MODULE),
    )
    await apply_crds(environment.kcp)
    await apply_objects(environment.kcp, module_authorization_as_yaml())
    rights_in_own_namespaces = files("lifecycle_manager.rbac").joinpath("kcp-modules.yaml").read_text()
    await apply_objects(environment.kcp, rights_in_own_namespaces)
    await apply_objects(environment.kcp, dump_yaml(WEBHOOK_SERVICE) + "---\n" + dump_yaml(WEBHOOK_CONFIGURATION))
    await offer_module(environment)
    if environment.clusters is not None:
        await environment.clusters.kcp.restart_controllers()
    manager = await create_identity(
        environment.kcp,
        environment.kcp_kubeconfig,
        name="lifecycle-manager",
        namespace=names.KCP_NAMESPACE,
        roles=[
            role
            for file in ("kcp.yaml", "kcp-webhooks.yaml", "kcp-page.yaml")
            for role in _roles(files("lifecycle_manager.rbac").joinpath(file).read_text())
        ],
    )
    module = await create_identity(
        environment.kcp,
        environment.kcp_kubeconfig,
        name="module-manager",
        namespace=names.KCP_NAMESPACE,
        roles=roles_of(names.MODULE),
    )
    return (
        write_private(environment.directory / "lifecycle-manager.kubeconfig", manager),
        write_private(environment.directory / "module-manager.kubeconfig", module),
    )


async def offer_module(environment: Environment) -> None:
    """Apply the module's entry of the catalog, as its team does."""
    entry = ("module-template.yaml", "module-release-meta.yaml", "module-policy.yaml")
    await apply_objects(environment.kcp, "\n---\n".join(map(_sample, entry)))


async def prepare_skr(environment: Environment) -> str:
    """Install the module's CRD as its installation would; return the kubeconfig that LM is given for this cluster."""
    await _ensure_namespaces(environment.skr, names.SCRATCH_NAMESPACE)
    await install_module_crd(environment.skr)
    roles = [
        *_roles(files("lifecycle_manager.rbac").joinpath("skr.yaml").read_text()),
        *_roles(_sample("skr-role.yaml")),
    ]
    return await create_identity(
        environment.skr, environment.skr_kubeconfig, name="lifecycle-manager", namespace="kube-system", roles=roles
    )


async def install_module_crd(skr: Client) -> None:
    """Apply the CRD of the module, as its installation would."""
    await apply_objects(skr, _sample("crd.yaml"))


def sample_module_cr() -> str:
    """Return the YAML of a Module CR as a user writes it."""
    return _sample("example.yaml")


async def create_kyma(environment: Environment, skr_access: str) -> None:
    """Create the access Secret and the Kyma, as the environment broker does for a new cluster."""
    labels = {api_names.KYMA_NAME: names.KYMA, api_names.MANAGED_BY: api_names.LIFECYCLE_MANAGER}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"kubeconfig-{names.KYMA}", "namespace": names.KCP_NAMESPACE, "labels": labels},
        "data": {"config": base64.b64encode(skr_access.encode()).decode()},
    }
    kyma = {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "Kyma",
        "metadata": {
            "name": names.KYMA,
            "namespace": names.KCP_NAMESPACE,
            "labels": {api_names.RUNTIME_ID: names.RUNTIME_ID, api_names.REGION: "eu-central-1"},
        },
        "spec": {"channel": "regular", "modules": []},
    }
    await apply_objects(environment.kcp, dump_yaml(secret) + "\n---\n" + dump_yaml(kyma))


def infrastructure(name: str, volumes: dict[str, str], peerings: dict[str, str]) -> dict[str, Any]:
    """Return an Infrastructure as a user writes it: capacities by volume, networks by peering."""
    return {
        "apiVersion": "cloud-resources.kyma-project.io/v1beta1",
        "kind": "Infrastructure",
        "metadata": {"name": name, "namespace": names.SKR_NAMESPACE},
        "spec": {
            "nfsVolumes": [
                {"name": volume, "server": "10.250.0.10", "path": f"/exports/{volume}", "capacity": capacity}
                for volume, capacity in volumes.items()
            ],
            "vpcPeerings": [
                {"name": peering, "remoteNetwork": network, "ports": [443]} for peering, network in peerings.items()
            ],
        },
    }


def _routes_beside(kubeconfig: Path) -> Path | None:
    folder = kubeconfig.absolute().parent
    return folder / "routes" if (folder / "egress.yaml").exists() else None


@asynccontextmanager
async def _clients(kcp: Path, skr: Path) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        await Client.from_environment(kcp) as kcp_client,
        await Client.from_environment(skr) as skr_client,
    ):
        yield kcp_client, skr_client


async def _ensure_namespaces(client: Client, *wanted: str) -> None:
    texts = [dump_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) for name in wanted]
    await apply_objects(client, "\n---\n".join(texts))


def _sample(name: str) -> str:
    return SAMPLE.joinpath(name).read_text()


def _roles(text: str) -> list[dict[str, Any]]:
    return [dict(each.document) for each in parse_objects(text)]
