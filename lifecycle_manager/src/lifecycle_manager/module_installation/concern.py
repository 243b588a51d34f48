"""Whether an object in a cluster is any of a module's business. Pure functions."""

from typing import Literal

from lifecycle_manager.module_installation.module_cr import default_cr
from lifecycle_manager.skr import ObjectReference
from lifecycle_manager_api import Manifest, names

Concern = Literal["module-cr", "of-its-kind", "object"]


def concerned_by(
    manifest: Manifest, changed: ObjectReference, default_namespace: str = names.SKR_NAMESPACE
) -> Concern | None:
    """Return what an object is to a module: its Module CR, another of that kind, one of its objects, or nothing."""
    wanted = default_cr(manifest, default_namespace)
    if wanted is not None and (wanted.group, wanted.kind) == (changed.group, changed.kind):
        same = (wanted.namespace, wanted.name) == (changed.namespace, changed.name)
        return "module-cr" if same else "of-its-kind"
    known = [(each.group, each.kind, each.namespace, each.name) for each in manifest.status.synced]
    return "object" if tuple(changed) in known else None
