"""A control plane as the Lifecycle Manager in Go finds it: namespaces, kinds, Kymas, and who wrote them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kube_runtime import Client, KindUnknown, NotFound, load_documents
from lifecycle_manager_api import names
from tests.kinds import DEPLOYMENTS
from tests.takeover_from_go import cert_manager
from tests.waiting import eventually

Document = dict[str, Any]
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
DEPLOYMENT = "klm-controller-manager"
PULL_SECRET = "former-pull-secret"
DOCKER_CONFIG = '{"auths": {"registry.example.com": {"auth": "dXNlcjpwYXNz"}}}'
GATEWAY_HOST = "listener.kyma.example.com"
RUNTIMES = ("6c3ee92f-0f51-4b0a-a1c2-5a58cbbd2f31", "b7d04be1-93a5-4c62-8f0e-2d5c7e1a9f44")
LABELS = ({names.INTERNAL: "True", names.BETA: "TRUE"}, {names.INTERNAL: "False"})
"""Labels of the Kymas, beside those that every Kyma has."""

INSTALLATION = f"""
apiVersion: networking.istio.io/v1beta1
kind: Gateway
metadata:
  name: klm-watcher
  namespace: {KCP}
  labels: {{operator.kyma-project.io/watcher-gateway: default}}
spec:
  selector: {{istio: ingressgateway}}
  servers:
    - hosts: [{GATEWAY_HOST}]
      port: {{name: https, number: 443, protocol: HTTPS}}
      tls: {{mode: MUTUAL, credentialName: klm-istio-gateway}}
---
apiVersion: operator.kyma-project.io/v1beta2
kind: Watcher
metadata: {{name: klm-watcher, namespace: {KCP}, labels: {{{names.MANAGED_BY}: {names.LIFECYCLE_MANAGER}}}}}
spec:
  manager: lifecycle-manager
  labelsToWatch: {{{names.WATCHED_BY}: kyma}}
  resourceToWatch: {{group: {names.GROUP}, version: "*", resource: kymas}}
  field: spec
  serviceInfo: {{name: klm-controller-manager-events, port: 8082, namespace: {KCP}}}
  gateway: {{selector: {{matchLabels: {{operator.kyma-project.io/watcher-gateway: default}}}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: {PULL_SECRET}, namespace: {KCP}}}
type: kubernetes.io/dockerconfigjson
stringData: {{.dockerconfigjson: '{DOCKER_CONFIG}'}}
---
{cert_manager.SURROUNDINGS}
"""


def namespaces(*wanted: str) -> str:
    return "---\n".join(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in wanted)


async def prepare(kcp: Client, definitions: Iterable[Path]) -> None:
    """Install what the Go version needs before it starts."""
    for document in load_documents(namespaces(KCP, names.KCP_LEASE_NAMESPACE, cert_manager.NAMESPACE)):
        await apply(kcp, document, "kustomize")
    for file in definitions:
        for document in filter(None, load_documents(file.read_text())):
            await apply(kcp, document, "kustomize")
    installed = list(load_documents(INSTALLATION))

    async def are_served() -> bool:
        return all([await is_served(kcp, each) for each in installed])

    await eventually(are_served, what="the kinds of the control plane are served")
    for document in installed:
        await apply(kcp, document, "argocd")


async def is_served(cluster: Client, document: Document) -> bool:
    """Tell whether the kind of an object is served."""
    try:
        await cluster.list(await cluster.mapper.resource(document["apiVersion"], document["kind"]))
    except (KindUnknown, NotFound):
        return False
    return True


def kyma_of(runtime: str, modules: Iterable[str], more_labels: Mapping[str, str]) -> Document:
    """Return a Kyma as the Kyma Environment Broker writes it."""
    labels = {
        "kyma-project.io/broker-plan-name": "aws",
        "kyma-project.io/global-account-id": "ga-1",
        "kyma-project.io/instance-id": runtime,
        "kyma-project.io/region": "eu-central-1",
        "kyma-project.io/runtime-id": runtime,
        "kyma-project.io/subaccount-id": "sa-1",
        names.KYMA_NAME: runtime,
        names.MANAGED_BY: names.LIFECYCLE_MANAGER,
        **more_labels,
    }
    metadata = {
        "name": runtime,
        "namespace": KCP,
        "labels": labels,
        "annotations": {names.SKR_DOMAIN: f"{runtime}.kyma.example.com"},
    }
    chosen = [{"name": each, "managed": True, "customResourcePolicy": "CreateAndDelete"} for each in modules]
    return _object(f"{names.GROUP}/v1beta2", "Kyma", metadata, spec={"channel": "regular", "modules": chosen})


def access_of(runtime: str, kubeconfig: str) -> Document:
    """Return the access Secret of a cluster as the Infrastructure Manager writes it."""
    metadata = {"name": f"kubeconfig-{runtime}", "namespace": KCP, "labels": {names.KYMA_NAME: runtime}}
    return _object("v1", "Secret", metadata, stringData={"config": kubeconfig})


def deployment_of(arguments: list[str]) -> Document:
    """Return the Deployment of the Go version."""
    labels = {"app.kubernetes.io/component": "lifecycle-manager.kyma-project.io"}
    container = {
        "name": "manager",
        "image": "registry.example.com/lifecycle-manager:c5b83f1",
        "command": ["/manager"],
        "args": [each for each in arguments if "127.0.0.1" not in each and "kubeconfig" not in each],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return _object(
        DEPLOYMENTS.api_version, "Deployment", {"name": DEPLOYMENT, "namespace": KCP, "labels": labels}, spec=spec
    )


async def apply(cluster: Client, document: Document, manager: str) -> Document:
    """Apply an object under a field manager."""
    resource = await cluster.mapper.resource(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    namespace = metadata.get("namespace") if resource.namespaced else None
    return await cluster.apply(resource, metadata["name"], document, namespace, field_manager=manager)


def _object(api_version: str, kind: str, metadata: Document, **content: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
