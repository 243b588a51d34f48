"""The rules of a Manifest that is installed or upgraded. Pure functions, one for each decision of `controller`.

May delete: objects that a new version no longer has; in a round with a failure only what may be its reason, such as a
webhook; no CRD that has objects, nor, without another operator, anything beside it. Only from the inventory, and never
what another module has or may get by a new version, or a SyncResource of the module names: that is handed over. Nor
what existed before: that is released to the users.
"""

from kube_runtime import InventoryEntry
from kyma_oci import SourceInvalid
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.snapshot import ManifestSnapshot, was_ready
from lifecycle_manager.module_installation.status import (
    KYMA_UNNAMED,
    MAX_BUSY_SECONDS,
    ORPHANED,
    orphaned_in,
    ready_version,
    refused,
    was_created,
)
from lifecycle_manager.module_installation.steps import ManifestDone, WaitForCheck
from lifecycle_manager.module_sources.references import Source, source_in
from lifecycle_manager_api import State, names


def source_of(seen: ManifestSnapshot) -> Source | ManifestDone | WaitForCheck:
    """Return where the objects of a module come from, or why nothing is installed."""
    if (end := refusal(seen)) is not None:
        return end
    if seen.seconds_until_check and is_settled(seen):
        return WaitForCheck(requeue_after=seen.seconds_until_check)
    try:
        return source_in(seen.resource.spec.install.source)
    except SourceInvalid as invalid:
        return refused(seen, invalid.reason, str(invalid))


def refusal(seen: ManifestSnapshot) -> ManifestDone | None:
    """Return why no Kyma has a Manifest; None where one has."""
    kyma = kyma_of_manifest(seen.resource)
    if not kyma:
        return refused(seen, KYMA_UNNAMED, f"the label {names.KYMA_NAME} does not name the Kyma")
    if orphaned_in(seen) <= 0:
        message = f"Kyma {kyma} does not exist or does not have this Manifest; delete it"
        return refused(seen, ORPHANED, message, again=MAX_BUSY_SECONDS)
    return None


def is_settled(seen: ManifestSnapshot) -> bool:
    """Tell whether the status says all that a reconcile would find out, but for what a check at the interval reads.

    Not where something else may have changed meanwhile: a default Module CR, a policy, or what a rollout released.
    """
    manifest, status = seen.resource, seen.resource.status
    return (
        was_ready(manifest)
        and seen.default_cr is None
        and seen.rules is None
        and seen.is_named
        and status.ready_version == ready_version(manifest, State.READY, seen.now)
    )


def is_released(seen: ManifestSnapshot) -> bool:
    """Tell whether there is nothing to release of a module that is left alone: it is skipped, or was released."""
    manifest = seen.resource
    return manifest.metadata.is_paused or manifest.status.state is State.UNMANAGED or not kyma_of_manifest(manifest)


def namespaces(seen: ManifestSnapshot, intended: tuple[InventoryEntry, ...]) -> tuple[str, ...]:
    """Return the shared namespace where something goes into it, unless that is kyma-system, which exists."""
    namespace, default = seen.options.namespace, seen.default_cr
    used = {*(each.namespace for each in intended), default.namespace if default is not None else ""}
    return (seen.default_namespace,) if namespace != names.SKR_NAMESPACE and namespace in used else ()


def reads_managers(seen: ManifestSnapshot) -> bool:
    """Tell whether what runs a module is read.

    A module that was ready and has a default Module CR is checked by that alone: one request.
    """
    return seen.applied is not None or not was_ready(seen.resource) or seen.default_cr is None


def cr_to_read(seen: ManifestSnapshot) -> DefaultCr | None:
    """Return the default Module CR to read or to create; None where it was not created and the manager does not run."""
    manifest, wanted = seen.resource, seen.default_cr
    if wanted is None:
        return None
    states = {each.readiness.state if each.readiness is not None else "Failed" for each in seen.managers or ()}
    is_known = was_created(manifest, wanted) and not seen.has_new_kind
    return wanted if states <= {"Current"} or is_known else None
