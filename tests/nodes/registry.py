"""A private registry that Lifecycle Manager reaches from its Pods, and modules in it."""

import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kyma_demo.pods import LIFECYCLE_MANAGER
from kyma_local.certificates import issue_for, write_key_pair
from kyma_local.helm import WAITING
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, with_layer
from tests.nodes.clusters import NodeClusters
from tests.registries import NAME, PASSWORD, NoRegistry, packed, push, real_registry

PORT = 443  # to which the network policy of the Lifecycle Manager lets it connect
LABELS = {f"{names.GROUP}/oci-registry-cred": "modules"}
# The Lifecycle Manager trusts the CA of its cluster, which has issued the certificate of the registry.
TRUST = {
    "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/registry/ca.crt"}],
    "extraVolumes": [{"name": "registry", "configMap": {"name": "kube-root-ca.crt"}}],
    "extraVolumeMounts": [{"name": "registry", "mountPath": "/registry", "readOnly": True}],
}


@dataclass(frozen=True)
class PrivateRegistry:
    """A registry with a login: the host by which it is reached from here, and that by which it is from Pods in KCP."""

    here: str
    there: str

    async def filled(self, template: dict[str, Any], text: str) -> dict[str, Any]:
        """Bring the layer of a version to the registry; return its ModuleTemplate, without a login."""
        component = template["spec"]["descriptor"]["component"]
        repository = f"modules/component-descriptors/{component['name']}"
        digest = await push(self.here, repository, packed({"all.yaml": text}), private=True)
        document = with_layer(template, self.there, digest)
        component["repositoryContexts"][0]["baseUrl"] = f"https://{self.there}/modules"
        return document

    async def put_with_login(self, world: NodeClusters, template: dict[str, Any]) -> None:
        """Put a ModuleTemplate into the catalog that names the Secret with the login, and that Secret."""
        secret = self._login()
        name = secret["metadata"]["name"]
        await world.kcp.apply(SECRETS, name, secret, names.KCP_NAMESPACE, field_manager="operator")
        (resource,) = template["spec"]["descriptor"]["component"]["resources"]
        resource["labels"] = [{"name": next(iter(LABELS)), "value": LABELS, "version": "v1"}]
        await put_in_catalog(world.kcp, template)

    def _login(self) -> dict[str, Any]:
        login = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
        config = msgspec.json.encode({"auths": {self.there: {"auth": login}}})
        return {
            "metadata": {"name": "modules-registry", "labels": LABELS},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        }


@asynccontextmanager
async def private_registry(world: NodeClusters, folder: Path) -> AsyncGenerator[PrivateRegistry, None]:
    """Run a registry until the block ends; skip the test where its program can't be had."""
    network = world.kcp_node.network
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = issue_for(world.clusters.kcp.ca, "registry", addresses=(network.address,))
    tls.load_cert_chain(*write_key_pair(pair, folder, "registry"))
    trust = (f"--set-json={name}={msgspec.json.encode(value).decode()}" for name, value in TRUST.items())
    await world.pods.helm.run("upgrade", LIFECYCLE_MANAGER, *world.pods.lifecycle_manager_arguments(), *trust, *WAITING)
    try:
        async with (
            real_registry(folder, private=True) as host,
            network.forwarding(int(host.rpartition(":")[2]), port=PORT, tls=tls),
        ):
            yield PrivateRegistry(host, f"{network.address}:{PORT}")
    except NoRegistry as error:
        pytest.skip(str(error))
