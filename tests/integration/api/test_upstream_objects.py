"""Objects of users of upstream Kyma can be applied unchanged."""

import textwrap
from typing import Any

import pytest

from kube_runtime import Client, parse_objects
from tests.integration.api.objects import RESOURCES, in_namespace

DESCRIPTOR = """
  descriptor:
    component:
      componentReferences: []
      labels:
        - name: security.kyma-project.io/scan
          value: enabled
          version: v1
      name: kyma-project.io/module/template-operator
      provider: '{"name":"kyma-project.io","labels":[{"name":"kyma-project.io/built-by","value":"cli","version":"v1"}]}'
      repositoryContexts:
        - baseUrl: registry.example.com
          componentNameMapping: urlPath
          subPath: kyma
          type: OCIRegistry
      resources:
        - access:
            imageReference: registry.example.com/template-operator:1.0.0
            type: ociRegistry
          name: template-operator
          relation: external
          type: ociArtifact
          version: 1.0.0
        - access:
            localReference: sha256:1735cfa45bf07b63427c8e11717278f8847e352a66af7633611db902386d18ed
            mediaType: application/x-tar
            type: localBlob
          digest:
            hashAlgorithm: SHA-256
            normalisationAlgorithm: genericBlobDigest/v1
            value: 1735cfa45bf07b63427c8e11717278f8847e352a66af7633611db902386d18ed
          name: raw-manifest
          relation: local
          type: directoryTree
          version: 1.0.0
      sources: []
      version: 1.0.0
    meta:
      schemaVersion: v2
"""

OBJECTS = {
    "kyma with channel and modules": """
apiVersion: operator.kyma-project.io/v1beta2
kind: Kyma
metadata:
  name: kyma-sample
  annotations:
    skr-domain: example.domain.com
  labels:
    operator.kyma-project.io/managed-by: lifecycle-manager
spec:
  channel: regular
  modules:
    - name: template-operator
    - name: btp-operator
      customResourcePolicy: Ignore
      channel: fast
""",
    "kyma without modules": """
apiVersion: operator.kyma-project.io/v1beta2
kind: Kyma
metadata: {name: kyma-sample}
spec: {channel: experimental}
""",
    "template with an OCM descriptor, a manager and a default Module CR": """
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata:
  name: template-operator-1.0.0-ea
  annotations:
    operator.kyma-project.io/is-cluster-scoped: "false"
spec:
  moduleName: template-operator
  version: 1.0.0-ea
  mandatory: false
  requiresDowntime: true
  info:
    repository: https://github.com/kyma-project/template-operator.git
    documentation: https://example.com/docs
    icons: [{name: module-icon, link: https://example.com/icon.svg}]
  associatedResources:
    - {group: operator.kyma-project.io, kind: Managed, version: v1alpha1}
  manager: {group: apps, kind: Deployment, name: template-operator-controller-manager, namespace: x, version: v1}
  resources:
    - name: rawManifest
      link: https://github.com/kyma-project/template-operator/releases/download/1.0.0-ea/template-operator.yaml
  data:
    apiVersion: operator.kyma-project.io/v1alpha1
    kind: Sample
    metadata: {name: sample-yaml}
    spec: {resourceFilePath: ./module-data/yaml}
"""
    + DESCRIPTOR,
    "template with the deprecated channel and a manager without namespace": """
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata:
  name: moduletemplate-template-operator-fast
  labels: {operator.kyma-project.io/module-name: template-operator}
spec:
  channel: fast
  manager: {group: "", kind: Pod, name: template-operator, version: v1}
  customStateCheck:
    - {jsonPath: status.health, mappedState: Ready, value: green}
    - {jsonPath: status.health, mappedState: Error, value: red}
"""
    + DESCRIPTOR,
    "template of a mandatory module": """
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleTemplate
metadata:
  name: template-operator-mandatory
  labels: {operator.kyma-project.io/mandatory-module: "true"}
spec:
  mandatory: true
  channel: ""
  version: 1.0.1
"""
    + DESCRIPTOR,
    "release with a selector": """
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: template-operator}
spec:
  moduleName: template-operator
  ocmComponentName: kyma-project.io/module/template-operator
  channels:
    - {channel: regular, version: 1.0.0}
    - {channel: fast, version: 1.1.0-rc}
    - {channel: experimental, version: 2.0.0-experimental}
  kymaSelector: {matchLabels: {kyma-project.io/global-account-id: 0f4c}}
""",
    "release of a mandatory module": """
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: warden}
spec: {moduleName: warden, mandatory: {version: 1.0.0}, beta: false, internal: true}
""",
    "watcher with gateway and labels": """
apiVersion: operator.kyma-project.io/v1beta2
kind: Watcher
metadata:
  name: klm-kyma-watcher
  labels: {operator.kyma-project.io/managed-by: lifecycle-manager}
spec:
  manager: lifecycle-manager
  labelsToWatch: {operator.kyma-project.io/watched-by: kyma}
  field: spec
  resourceToWatch: {group: operator.kyma-project.io, version: "*", resource: kymas}
  serviceInfo: {name: klm-event-service, port: 8082, namespace: kcp-system}
  gateway: {selector: {matchLabels: {operator.kyma-project.io/watcher-gateway: default}}}
""",
    "manifest as the control plane writes it": """
apiVersion: operator.kyma-project.io/v1beta2
kind: Manifest
metadata:
  name: kyma-sample-template-operator-1234567
  labels: {operator.kyma-project.io/kyma-name: kyma-sample, operator.kyma-project.io/watched-by: kyma}
  annotations: {operator.kyma-project.io/fqdn: kyma-project.io/module/template-operator}
spec:
  remote: true
  customResourcePolicy: CreateAndDelete
  version: 1.0.0
  config: {}
  install:
    name: raw-manifest
    source:
      name: kyma-project.io/module/template-operator
      ref: sha256:1735cfa45bf07b63427c8e11717278f8847e352a66af7633611db902386d18ed
      repo: registry.example.com/component-descriptors
      type: oci-ref
  resource: null
""",
}


@pytest.mark.parametrize("name", OBJECTS)
async def test_upstream_object_applies_unchanged(served: Client, namespace: str, name: str) -> None:
    (only,) = parse_objects(textwrap.dedent(OBJECTS[name]))
    document = in_namespace(only.document, namespace)

    stored = await served.apply(
        RESOURCES[document["kind"]], document["metadata"]["name"], document, namespace, field_manager="kubectl"
    )

    assert _holds(stored["spec"], document["spec"])


def _holds(stored: Any, given: Any) -> bool:
    """Tell whether all that was given is stored; defaults may have come along."""
    if isinstance(given, dict):
        return all(_holds(stored.get(name), each) for name, each in given.items())
    if isinstance(given, list) and given and isinstance(given[0], dict):
        return all(any(_holds(other, each) for other in stored) for each in given)
    return bool(stored == given)
