"""What is read of a Module CR: the status that Lifecycle Manager wrote. Users decide about the rest."""

from typing import Any

import msgspec

from kube_runtime import JsonLimits
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER, Fields, only_owned

MODULE_CR = JsonLimits(max_bytes=4 * 1024 * 1024, max_nodes=1_600_000, max_depth=None)
MAX_STATUS_BYTES = 64 * 1024
"""What is decoded of a status and of its field owners: several times what Lifecycle Manager writes."""


class _Managed(msgspec.Struct, rename="camel"):
    manager: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))

    @property
    def is_ours(self) -> bool:
        is_small = len(bytes(self.fields)) <= MAX_STATUS_BYTES
        return is_small and (self.manager, self.subresource) == (MODULE_CR_STATUS_MANAGER, "status")


class ModuleCrMetadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    managed_fields: list[_Managed] = []


class ModuleCrHead(msgspec.Struct, frozen=True):
    """What is read of a Module CR. Users decide how large the rest is, so it is not decoded."""

    metadata: ModuleCrMetadata
    status: dict[str, msgspec.Raw] | None = None

    def written(self) -> dict[str, Any]:
        """Return the fields of the status that Lifecycle Manager wrote. Raises msgspec.DecodeError, RecursionError."""
        ours = (each for each in self.metadata.managed_fields if each.is_ours)
        owned = next((_owned(msgspec.json.decode(each.fields)) for each in ours), {})
        named = {name: raw for name, raw in (self.status or {}).items() if f"f:{name}" in owned}
        small = {name: raw for name, raw in named.items() if len(bytes(raw)) <= MAX_STATUS_BYTES}
        return only_owned({name: msgspec.json.decode(raw) for name, raw in small.items()}, owned)


def _owned(fields: Any) -> Fields:
    found = fields.get("f:status") if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}
