"""The CustomResourceDefinitions, generated from the types."""

from typing import Any

import msgspec
from msgspec import inspect

from lifecycle_manager_api.kyma import Kyma
from lifecycle_manager_api.manifest import Manifest
from lifecycle_manager_api.module_config import ModuleConfig
from lifecycle_manager_api.module_release_meta import ModuleReleaseMeta
from lifecycle_manager_api.module_template import ModuleTemplate
from lifecycle_manager_api.sync_resource import SyncResource
from lifecycle_manager_api.watcher import Watcher

ALL = (Kyma, ModuleTemplate, ModuleReleaseMeta, Manifest, Watcher, ModuleConfig, SyncResource)
KEYS = {"modules": ["name"], "conditions": ["type"], "channels": ["channel"], "resources": ["name"], "icons": ["name"]}
Document = dict[str, Any]
SCALARS: dict[type, Document] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer", "format": "int64"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.RawType: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def all_crds() -> tuple[Document, ...]:
    """Return every CustomResourceDefinition."""
    return tuple(crd_for(kind) for kind in ALL)


def crd_for(kind: Any) -> Document:
    """Return the CustomResourceDefinition of a type."""
    info: Any = inspect.type_info(kind)
    fields = {field.encode_name: field for field in info.fields}
    properties = {name: _schema(fields[name].type) for name in ("spec", "status") if name in fields}
    version: Document = {
        "name": kind.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}},
    }
    if "status" in fields:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{kind.GROUP}"},
        "spec": {
            "group": kind.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": kind.PLURAL,
                "singular": kind.KIND.lower(),
            },
            "versions": [version],
        },
    }


def crd_yaml(*crds: Document) -> str:
    """Return CRDs as YAML documents; JSON is YAML."""
    return "\n---\n".join(msgspec.json.format(msgspec.json.encode(crd), indent=2).decode() for crd in crds)


def _schema(info: Any, name: str = "") -> Document:
    if isinstance(info, inspect.UnionType):
        return _schema(next(each for each in info.types if not isinstance(each, inspect.NoneType)), name)
    if isinstance(info, inspect.StructType):
        return _object(info)
    if isinstance(info, inspect.VarTupleType):
        return _list(info, name)
    if isinstance(info, inspect.DictType):
        return {"type": "object", "additionalProperties": _schema(info.value_type)}
    return _scalar(info)


def _object(info: inspect.StructType) -> Document:
    required = [field.encode_name for field in info.fields if field.required]
    properties = {field.encode_name: _schema(field.type, field.encode_name) for field in info.fields}
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _list(info: inspect.VarTupleType, name: str) -> Document:
    listed: Document = {"type": "array", "items": _schema(info.item_type)}
    keys = KEYS.get(name)
    if keys and isinstance(info.item_type, inspect.StructType):
        listed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    return listed


def _scalar(info: Any) -> Document:
    if isinstance(info, inspect.EnumType):
        return {"type": "string", "enum": [member.value for member in info.cls]}
    if isinstance(info, inspect.LiteralType):
        return {"type": "string", "enum": list(info.values)}
    return SCALARS.get(type(info), {"type": "string"})
