"""The CRDs of other projects whose objects the charts can contain, from the Go modules in which they are published."""

import tempfile
from pathlib import Path

from kube_runtime import dump_yaml, parse_objects
from kyma_local.go_modules import download, find_go
from kyma_local.progress import Listener

PROMETHEUS = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
GATEWAY_API = ("sigs.k8s.io/gateway-api", "v1.6.3")
ISTIO = ("istio.io/api", "v1.31.1")
CERT_MANAGER = ("github.com/cert-manager/cert-manager", "v1.21.2")
FILES = {
    "certificates.cert-manager.io": (CERT_MANAGER, "deploy/crds/cert-manager.io_certificates.yaml"),
    "issuers.cert-manager.io": (CERT_MANAGER, "deploy/crds/cert-manager.io_issuers.yaml"),
    "prometheusrules.monitoring.coreos.com": (
        PROMETHEUS,
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "servicemonitors.monitoring.coreos.com": (
        PROMETHEUS,
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "tlsroutes.gateway.networking.k8s.io": (
        GATEWAY_API,
        "config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml",
    ),
    "gateways.networking.istio.io": (ISTIO, "kubernetes/customresourcedefinitions.gen.yaml"),
    "virtualservices.networking.istio.io": (ISTIO, "kubernetes/customresourcedefinitions.gen.yaml"),
}


def crds_of_others() -> str:
    """Return the CRDs as one YAML text. Raises SourceFailed if the modules cannot be downloaded."""
    texts = []
    with tempfile.TemporaryDirectory() as scratch:
        go = find_go(Path(scratch), Listener())
        for name, (module, file) in FILES.items():
            text = (download(go, *module, Path(scratch)) / file).read_text()
            (found,) = (each.document for each in parse_objects(text) if each.document["metadata"]["name"] == name)
            texts.append(dump_yaml(dict(found)))
    return "---\n".join(texts)
