"""What modulectl writes for a module, its ModuleTemplate and the constructor of its component; and the component.

OCM's program makes the component of the constructor; here it is made at once.
"""

from collections.abc import Mapping
from pathlib import Path

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.modulectl.config import as_group_version_kind, by_name, is_url
from kyma_module_manager.project.modulectl.images import WorkloadImage, images_in
from kyma_module_manager.project.modulectl.module import ModulectlModule
from kyma_module_manager.project.packing import DEFAULT_CR, PLAIN_TEXT, TREE, PackedModule, Signed, descriptor_of
from kyma_module_manager.project.reading import Document
from kyma_oci import Blob
from kyma_oci.descriptor import RAW_MANIFEST
from kyma_oci.packing import (
    ARTIFACT_DIGEST,
    digest_of,
    file_layer,
    provider_text,
)
from lifecycle_manager_api import ModuleTemplate, names

PROVIDER = "kyma-project.io"
BUILT_BY = f"{PROVIDER}/built-by"
THIRD_PARTY_IMAGE = {"name": "scan.security.kyma-project.io/type", "value": "third-party-image", "version": "v1"}
MODULE_TEMPLATE = "moduletemplate"
ANY_CONTENT = "application/octet-stream"


def module_template(module: ModulectlModule, *, enable_module_config: bool | None = None) -> Document:
    """Return the ModuleTemplate of a module. Its descriptor is in the registry."""
    config = module.config
    labels = {**config.labels, names.MODULE_NAME: config.module}
    labels |= {label: "true" for label, is_set in _audience(module) if is_set}
    annotations = {**config.annotations, names.IS_CLUSTER_SCOPED: _text(module.is_cluster_scoped)}
    spec: Document = {
        "moduleName": config.module,
        "version": config.version,
        "requiresDowntime": config.requires_downtime,
        "info": {
            "repository": config.repository,
            "documentation": config.documentation,
            "icons": [{"name": name, "link": link} for name, link in by_name(config.icons).items()],
        },
        "descriptor": {},
    }
    if config.associated_resources:
        spec["associatedResources"] = [as_group_version_kind(each) for each in config.associated_resources]
    if module.default_cr is not None:
        spec["data"] = dict(module.default_cr)
    if (manager := config.manager) is not None:
        namespace = {"namespace": manager.namespace} if manager.namespace else {}
        spec["manager"] = {"name": manager.name, **namespace, **as_group_version_kind(manager)}
    resources = {"rawManifest": config.manifest} if is_url(config.manifest) else {}
    if resources := resources | by_name(config.resources):
        spec["resources"] = [{"name": name, "link": link} for name, link in sorted(resources.items())]
    if enable_module_config is not None:
        spec["enableModuleConfig"] = enable_module_config
    return {
        "apiVersion": f"{ModuleTemplate.GROUP}/{ModuleTemplate.VERSION}",
        "kind": ModuleTemplate.KIND,
        "metadata": {
            "name": f"{config.module}-{config.version}",
            "namespace": "",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }


def component_of(module: ModulectlModule, commit: str) -> Document:
    """Return the component without the resources that are files of the module."""
    version = module.config.version
    source = {"type": "gitHub", "repoUrl": module.config.repository, "commit": commit}
    return {
        "name": module.config.name,
        "version": version,
        "provider": {
            "name": PROVIDER,
            "labels": [{"name": BUILT_BY, "value": "modulectl", "version": "v1"}],
        },
        "labels": _labels(module),
        "resources": [_image(each) for each in images_in(module.objects)],
        "sources": [{"name": "module-sources", "type": "Github", "version": version, "access": source}],
    }


def constructor_of(module: ModulectlModule, commit: str, files: Mapping[str, Path]) -> Document:
    """Return what OCM's program makes a component of; `files` by their resources."""
    component = component_of(module, commit)
    for name, path in files.items():
        is_text = name == MODULE_TEMPLATE
        given = {"type": "file", "path": str(path)} if is_text else {
            "type": "dir",
            "path": str(path.parent),
            "includeFiles": [path.name],
        }  # fmt: skip
        kind = PLAIN_TEXT if is_text else TREE
        component["resources"].append({"name": name, "type": kind, "version": module.config.version, "input": given})
    return {"components": [component]}


def pack_module(
    module: ModulectlModule,
    commit: str,
    registry: str,
    *,
    enable_module_config: bool | None = None,
    signed: Signed | None = None,
) -> PackedModule:
    """Pack a module for a registry and a path there, as OCM's program does it by the constructor.

    Raises DeclarationError for images that can't be `signed`.
    """
    template = module_template(module, enable_module_config=enable_module_config)
    layers = {RAW_MANIFEST: file_layer(module.manifest.name, module.manifest.text)}
    if module.default is not None:
        layers[DEFAULT_CR] = file_layer(module.default.name, module.default.text)
    if signed is not None:
        _require_digests(module)
    layers[MODULE_TEMPLATE] = Blob(dump_yaml(template).encode(), ANY_CONTENT)
    component = component_of(module, commit)
    component |= {
        "provider": provider_text(component["provider"]),
        "componentReferences": [],
        "resources": [*map(_with_digest, component["resources"])],
    }
    descriptor = descriptor_of(component, layers, registry, signed)
    return PackedModule.of(descriptor, layers, registry, template)


def _with_digest(image: Document) -> Document:
    """Return the resource of an image with the digest in its reference, where it has one."""
    digest = image["access"]["imageReference"].partition("@sha256:")[2]
    return image | {"digest": digest_of(ARTIFACT_DIGEST, digest)} if digest else image


def _require_digests(module: ModulectlModule) -> None:
    if tagged := [each.reference for each in images_in(module.objects) if not each.digest]:
        raise DeclarationError(
            "a signature is about digests, so the manifest of a signed module names its images as NAME:TAG@sha256:…; "
            f"without one are {', '.join(tagged)}"
        )


def _labels(module: ModulectlModule) -> list[Document]:
    config = module.config
    texts = [
        *((label, _text(is_set)) for label, is_set in _audience(module)),
        ("operator.kyma-project.io/requiresDowntime", _text(config.requires_downtime)),
        (names.IS_CLUSTER_SCOPED, _text(module.is_cluster_scoped)),
    ]
    labels: list[Document] = [{"name": name, "value": value, "version": "v1"} for name, value in texts]
    if config.security_scan_enabled:
        team = {"github_hostname": "github.tools.sap", "teamname": config.team, "type": "githubTeam"}
        labels.append({"name": "security.kyma-project.io/scan", "value": "enabled", "version": "v1"})
        labels.append({"name": "cloud.gardener.cnudie/responsibles", "value": [team], "version": "v1"})
    return labels


def _audience(module: ModulectlModule) -> tuple[tuple[str, bool], ...]:
    return (names.BETA, module.config.beta), (names.INTERNAL, module.config.internal)


def _image(image: WorkloadImage) -> Document:
    return {
        "name": image.resource,
        "type": "ociArtifact",
        "relation": "external",
        "version": image.version,
        "labels": [THIRD_PARTY_IMAGE],
        "access": {"type": "ociArtifact", "imageReference": image.reference},
    }


def _text(value: bool) -> str:
    return str(value).lower()
