"""Packs a module as an OCM component version: its descriptor, its CRDs and its default Module CR.

The layout is the OCI mapping of the Open Component Model: repository `<path>/component-descriptors/<component>`, the
version as tag, layer 0 a tar with `component-descriptor.yaml`, every local blob a further layer.
"""

import io
import json
import tarfile
from dataclasses import dataclass
from typing import Any

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.reading import Document, ModuleProject
from kyma_module_manager.project.registry import Blob

__all__ = ["PackedModule", "pack"]

CONFIG_MEDIA_TYPE = "application/vnd.ocm.software.component.config.v1+json"
DESCRIPTOR_MEDIA_TYPE = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
TAR_MEDIA_TYPE = "application/x-tar"


@dataclass(frozen=True)
class PackedModule:
    """The blobs to push for a module, and its ModuleTemplate with the descriptor in it."""

    repository: str
    tag: str
    config: Blob
    layers: tuple[Blob, ...]
    module_template: Document


def pack(
    project: ModuleProject, registry: str, *, path: str = "", enable_module_config: bool | None = None
) -> PackedModule:
    """Pack a project for a repository path of a registry. Raises DeclarationError if a part is missing.

    `enable_module_config` replaces the field of that name in the project's ModuleTemplate; None keeps it.
    """
    templates = project.of_kind("ModuleTemplate")
    if len(templates) != 1:
        raise DeclarationError(
            f"folder module: found {len(templates)} of kind ModuleTemplate, expected 1; run klm module validate"
        )
    template = templates[0]
    component = template["spec"]["descriptor"]["component"]
    crds = project.of_kind("CustomResourceDefinition")
    raw_manifest = _tar("raw-manifest.yaml", "---\n".join(dump_yaml(each) for each in crds))
    default = _tar("default-cr.yaml", dump_yaml(template["spec"]["data"]))
    descriptor = _descriptor(component, f"{registry}/{path}".rstrip("/"), raw_manifest, default)
    layer = Blob(_archive("component-descriptor.yaml", dump_yaml(descriptor)), DESCRIPTOR_MEDIA_TYPE)
    config = json.dumps({"componentDescriptorLayer": layer.descriptor()}, separators=(",", ":")).encode()
    changed: Document = {"descriptor": descriptor}
    if enable_module_config is not None:
        changed["enableModuleConfig"] = enable_module_config
    return PackedModule(
        repository="/".join(filter(None, (path, "component-descriptors", component["name"]))),
        tag=component["version"].replace("+", ".build-"),
        config=Blob(config, CONFIG_MEDIA_TYPE),
        layers=(layer, raw_manifest, default),
        module_template=template | {"spec": template["spec"] | changed},
    )


def _descriptor(component: Document, base_url: str, raw_manifest: Blob, default: Blob) -> Document:
    version = component["version"]
    return {
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": component["name"],
            "version": version,
            "provider": component.get("provider") or "kyma-project.io",
            "repositoryContexts": [
                {"type": "OCIRegistry", "baseUrl": base_url, "componentNameMapping": "urlPath"},
            ],
            "sources": component.get("sources") or [],
            "componentReferences": component.get("componentReferences") or [],
            "resources": [
                *(each for each in component.get("resources") or [] if each.get("name") not in _PACKED),
                _resource("raw-manifest", version, raw_manifest),
                _resource("default-cr", version, default),
            ],
        },
    }


_PACKED = frozenset({"raw-manifest", "default-cr"})


def _resource(name: str, version: str, blob: Blob) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "type": "directoryTree",
        "relation": "local",
        "access": {"type": "localBlob", "localReference": blob.digest, "mediaType": blob.media_type},
        "digest": {
            "hashAlgorithm": "SHA-256",
            "normalisationAlgorithm": "genericBlobDigest/v1",
            "value": blob.digest.removeprefix("sha256:"),
        },
    }


def _tar(name: str, text: str) -> Blob:
    return Blob(_archive(name, text), TAR_MEDIA_TYPE)


def _archive(name: str, text: str) -> bytes:
    """Return a reproducible tar of one file: without its time and owner."""
    content = text.encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        entry.mode = 0o644
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
