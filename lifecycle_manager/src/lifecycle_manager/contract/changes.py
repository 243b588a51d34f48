"""Predicates on changes of Kymas and other objects in KCP that several domains use as `when=` of their triggers."""

from collections.abc import Callable
from typing import TypeVar

from kube_runtime import Change
from lifecycle_manager.contract.conditions import is_event_path_faulty
from lifecycle_manager_api import ApiObject, Kyma, ObjectMeta, names

T = TypeVar("T", bound=ApiObject)


def kyma_changed(*reads: Callable[[Kyma], object]) -> Callable[[Change[Kyma]], bool]:
    """Return the function that tells whether a Kyma changed for a domain, which reads these values of spec and status.

    Its metadata always counts, and that it loses a condition, which is to be written again.
    """

    def changed(change: Change[Kyma]) -> bool:
        old, new = change.old, change.new
        return (
            old is None
            or new is None
            or old.metadata.finalizers != new.metadata.finalizers
            or metadata_changed(old.metadata, new.metadata)
            or any(read(old) != read(new) for read in reads)
            or not _condition_types(old) <= _condition_types(new)
        )

    return changed


def modules_changed(change: Change[Kyma]) -> bool:
    """Tell whether modules of a Kyma have to be reconciled."""
    return changed_modules(change) != frozenset()


def changed_modules(change: Change[Kyma]) -> frozenset[str] | None:
    """Return the modules of a Kyma that have to be reconciled: those that resolve to another template.

    None where all have to: the Kyma gets its first state or loses it, is being deleted, its event path breaks or works
    again, since that changes the interval, or an operator asks for it.
    """
    old, new = change.old, change.new
    if (
        old is None
        or new is None
        or (old.status.state == "") != (new.status.state == "")
        or is_event_path_faulty(old) != is_event_path_faulty(new)
        or old.metadata.being_deleted != new.metadata.being_deleted
        or old.metadata.annotations.get(names.RECONCILE_AT) != new.metadata.annotations.get(names.RECONCILE_AT)
    ):
        return None
    if (before := _templates(old)) == (after := _templates(new)):
        return frozenset()
    both = before.keys() & after.keys()
    return frozenset((before.keys() ^ after.keys()) | {name for name in both if before[name] != after[name]})


def metadata_changed(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Tell whether labels, annotations, or the deletion timestamp differ."""
    return (
        old.labels != new.labels
        or old.annotations != new.annotations
        or old.deletion_timestamp != new.deletion_timestamp
    )


def generation_changed(change: Change[T]) -> bool:
    """Tell whether an object was created, deleted, or has another generation."""
    old, new = change.old, change.new
    return old is None or new is None or old.metadata.generation != new.metadata.generation


def versions(change: Change[T]) -> tuple[T, ...]:
    """Return the object after and before a change, without the one that there is not; there is always one of them."""
    return tuple(each for each in (change.new, change.old) if each is not None)


def finalizer_removed(finalizer: str, change: Change[T]) -> bool:
    """Tell whether an object no longer has a finalizer that it had."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return finalizer in set(old.metadata.finalizers) - set(new.metadata.finalizers)


def _templates(kyma: Kyma) -> dict[str, object]:
    return {module.name: module.template for module in kyma.status.modules}


def _condition_types(kyma: Kyma) -> set[str]:
    return {condition.type for condition in kyma.status.conditions}
