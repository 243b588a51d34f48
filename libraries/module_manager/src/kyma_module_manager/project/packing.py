"""Packs a module as a component version: its descriptor, its objects and its default Module CR."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.command_name import module_command
from kyma_module_manager.project.reading import Document, ModuleProject
from kyma_oci.descriptor import RAW_MANIFEST, TAR
from kyma_oci.packing import (
    Blob,
    config_of,
    context_of,
    descriptor_layer,
    file_layer,
    repository_of,
    resource_of,
    tag_of,
)

DEFAULT_CR = "default-cr"
TREE, PLAIN_TEXT = "directoryTree", "PlainText"
Signed = Callable[[Document], Document]
"""Returns a descriptor with a signature."""


@dataclass(frozen=True)
class PackedModule:
    """The blobs to push for a module, and its ModuleTemplate with the descriptor in it."""

    repository: str
    tag: str
    config: Blob
    layers: tuple[Blob, ...]
    module_template: Document

    @classmethod
    def of(cls, descriptor: Document, layers: Mapping[str, Blob], registry: str, module_template: Document) -> Self:
        """Return the component of a descriptor, with its layers by their resources, for a path of a registry."""
        component, layer = descriptor["component"], descriptor_layer(dump_yaml(descriptor))
        return cls(
            repository=repository_of(component["name"], registry.partition("/")[2]),
            tag=tag_of(component["version"]),
            config=config_of(layer),
            layers=(layer, *layers.values()),
            module_template=module_template,
        )


def pack(
    project: ModuleProject,
    registry: str,
    *,
    enable_module_config: bool | None = None,
    signed: Signed | None = None,
) -> PackedModule:
    """Pack a project for a registry and a path there. Raises DeclarationError if a part is missing.

    `enable_module_config` replaces the field of that name in the project's ModuleTemplate; None keeps it. `signed`
    returns the descriptor with a signature.
    """
    templates = project.of_kind("ModuleTemplate")
    if len(templates) != 1:
        raise DeclarationError(
            f"folder module: found {len(templates)} of kind ModuleTemplate, expected 1; run {module_command()} validate"
        )
    template = templates[0]
    component = template["spec"]["descriptor"]["component"]
    objects = "---\n".join(dump_yaml(each) for each in project.objects())
    layers = {RAW_MANIFEST: file_layer("raw-manifest.yaml", objects)}
    if (default := template["spec"].get("data")) is not None:
        layers[DEFAULT_CR] = file_layer("default-cr.yaml", dump_yaml(default))
    others = [each for each in component.get("resources") or [] if each.get("name") not in {RAW_MANIFEST, DEFAULT_CR}]
    described = {
        "name": component["name"],
        "version": component["version"],
        "provider": component.get("provider") or "kyma-project.io",
        **({"labels": component["labels"]} if component.get("labels") else {}),
        "sources": component.get("sources") or [],
        "componentReferences": component.get("componentReferences") or [],
        "resources": others,
    }
    descriptor = descriptor_of(described, layers, registry, signed)
    changed: Document = {"descriptor": descriptor}
    if enable_module_config is not None:
        changed["enableModuleConfig"] = enable_module_config
    return PackedModule.of(descriptor, layers, registry, template | {"spec": template["spec"] | changed})


def descriptor_of(
    component: Document, layers: Mapping[str, Blob], registry: str, signed: Signed | None = None
) -> Document:
    """Return the descriptor of a component with the layers as further resources, `signed` where that is given."""
    local = [
        resource_of(name, component["version"], blob, kind=TREE if blob.media_type == TAR else PLAIN_TEXT)
        for name, blob in layers.items()
    ]
    described = component | {
        "repositoryContexts": [context_of(registry)],
        "resources": [*component["resources"], *local],
    }
    descriptor: Document = {"meta": {"schemaVersion": "v2"}, "component": described}
    return descriptor if signed is None else signed(descriptor)
