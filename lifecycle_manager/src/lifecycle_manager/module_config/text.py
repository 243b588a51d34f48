"""The text of one Module CR, within bounds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from kube_runtime import UNDECODABLE, JsonLimits, ResponseTooLarge, TextTooLong, dump_yaml
from kube_runtime.client.json_limits import check_json
from lifecycle_manager.contract.owned_fields import owned_status_fields, without_owned
from lifecycle_manager.module_config.reading import ModuleCr
from lifecycle_manager.module_config.status import too_large, undecodable

__all__ = ["MAX_TEXT_BYTES", "MODULE_CR", "text_of", "with_text"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OF_THE_SERVER = frozenset({"managedFields", "resourceVersion"})
MIB = 1024 * 1024
MODULE_CR = JsonLimits(max_bytes=4 * MIB, max_nodes=50_000)
# etcd stores objects of up to 1.5 MiB. The text is one of several fields, and its size is that of the JSON string.
MAX_TEXT_BYTES = MIB


def with_text(module_cr: ModuleCr) -> ModuleCr:
    """Return a Module CR with its text, or with the reason why it has none."""
    source, reference = module_cr.source, module_cr.reference
    try:
        check_json(module_cr.raw, MODULE_CR)
        document = msgspec.json.decode(module_cr.raw, type=dict[str, Any])
        # A list of the API server does not name the kind of its objects.
        text = text_of(document | {"apiVersion": reference.api_version, "kind": reference.kind})
    except ResponseTooLarge as error:
        return replace(module_cr, raw=b"", problem=too_large(source, str(error)))
    except TextTooLong:
        return replace(module_cr, raw=b"", problem=too_large(source, f"its text has more than {MAX_TEXT_BYTES} bytes"))
    except UNDECODABLE as error:
        return replace(module_cr, raw=b"", problem=undecodable(source, str(error)))
    return replace(module_cr, raw=b"", text=text)


def text_of(module_cr: Mapping[str, Any]) -> str:
    """Return a Module CR as YAML in a stable order, without what changes although its user changed nothing.

    That is the managed fields, the resource version, the annotation of kubectl apply, and the fields of the status that
    the Lifecycle Manager wrote. Raises TextTooLong.
    """
    metadata = {key: value for key, value in module_cr["metadata"].items() if key not in OF_THE_SERVER}
    annotations = metadata.pop("annotations", None)
    if isinstance(annotations, dict):
        annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        if annotations:
            metadata["annotations"] = annotations
    document = {**module_cr, "metadata": metadata}
    owned = owned_status_fields(module_cr["metadata"].get("managedFields"))
    if owned and (status := without_owned(document.pop("status", None), owned)) is not None:
        document["status"] = status
    return dump_yaml(document, max_bytes=MAX_TEXT_BYTES)
