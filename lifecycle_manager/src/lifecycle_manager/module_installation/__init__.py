"""Manifest: a module in a user's cluster, installed there, watched, upgraded, and removed again.

Its objects come from a layer or a link (`sources`), are read once for the fleet (`rendering`), applied and pruned by
the inventory in the Manifest's status (`installation`), and judged by what runs the module and by its Module CR
(`managers`, `state_checks`). `removal` takes them out again, what users have put in first of all; what another module
has as well (`sharing`) is handed over to it (`handover`).

Read `plan` for the rules, `status` for what is told, then `reconciler`.
"""

from lifecycle_manager.module_installation.concern import concerned_by
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.reconciler import ManifestReconciler
from lifecycle_manager.oci import Blobs, Components, ObjectStore, Registries

__all__ = [
    "Blobs",
    "Components",
    "Logins",
    "ManifestReconciler",
    "ObjectStore",
    "Registries",
    "concerned_by",
]
