"""Applies a set of objects to a cluster, and prunes objects of an earlier revision that are not in the set.

Only objects in the inventory are pruned, whatever labels say. Objects are applied by rank, those of a rank at the same
time as far as the client's limit on requests under way allows; one that fails does not delay the others, except a CRD
the objects of its kind, which may be somebody else's. Then nothing is pruned in that round but what can make the API
server refuse others, see `may_refuse`. An object that is known to be in its desired state is read and not written.

Where the server refuses an apply because of what others have added, that is taken over and removed (`claims`). An
object of which a field may not be changed is deleted and created anew where nothing is lost by that (`recreation`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kube_runtime.apply.difference import ObjectDifference, difference_between
from kube_runtime.apply.documents import OF_THE_SERVER, content_to_apply, removes_itself
from kube_runtime.apply.established import wait_established
from kube_runtime.apply.existence import look_up
from kube_runtime.apply.kept import KeptObjects
from kube_runtime.apply.memory import ApplyMemory, digest_of
from kube_runtime.apply.objects import Identity, InventoryEntry, KubernetesObject, kind_named_in
from kube_runtime.apply.order import CRD, ends_running, may_refuse, rank_of
from kube_runtime.apply.recreation import unchangeable, way_out
from kube_runtime.apply.refusals import expanded, explained, immutable_fields, is_shrunk
from kube_runtime.apply.removal import ObjectRemoval, concurrently
from kube_runtime.apply.results import Action, ApplyResult, NoteExisting, ObjectOutcome, inventory_after, left_over_by
from kube_runtime.apply.settled import is_settled, last_writer
from kube_runtime.apply.writing import ObjectTarget, ObjectWriter, Written, is_unchanged
from kube_runtime.client.client import Client
from kube_runtime.exceptions import (
    ClusterUnreachable,
    Invalid,
    KindUnknown,
    KubeError,
    NotFound,
    ObjectUnreadable,
    ServerUnavailable,
)
from kube_runtime.parsing import parse_aside
from kube_runtime.resource import JsonObject, Resource


class Applier:
    """Applies sets of objects to one cluster. Keep it, or its `memory`, from round to round: of what was applied.

    - `labels`, `annotations`: put on every object
    - `owns`: tells whether an object, as it is in the cluster, may be deleted; by default one with these labels
    - `default_namespace`: for a namespaced object that names none
    - `former_managers`: field managers under which these objects were applied before: what they own becomes this one's,
      so that fields which are no longer applied are removed
    - `recreate_annotation`: an annotation of a document that, as "true", allows to delete the object and to create it
      anew where a field may not be changed
    """

    def __init__(
        self,
        client: Client,
        *,
        field_manager: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        owns: Callable[[InventoryEntry, JsonObject], bool] | None = None,
        default_namespace: str = "default",
        former_managers: Collection[str] = (),
        recreate_annotation: str = "",
        memory: ApplyMemory | None = None,
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._labels = dict(labels or {})
        self._annotations = dict(annotations or {})
        self._owns = owns or self._has_labels
        self._default_namespace = default_namespace
        self._recreate_annotation = recreate_annotation
        self._memory = ApplyMemory() if memory is None else memory
        self._writer = ObjectWriter(
            client=client,
            field_manager=field_manager,
            former_managers=frozenset(former_managers),
            recreate_annotation=recreate_annotation,
            owns=self._owns,
        )
        self._removal = ObjectRemoval(client, self._owns, self._memory)

    async def apply(
        self,
        objects: Iterable[KubernetesObject],
        inventory: Collection[InventoryEntry] = (),
        *,
        new: Collection[InventoryEntry] = (),
        prune: bool = True,
        recheck: bool | Collection[Identity] = True,
        leave: Callable[[InventoryEntry, JsonObject], bool] = lambda _entry, _live: False,
        found: Collection[Identity] = (),
        unsure: Collection[InventoryEntry] = (),
        note_existing: NoteExisting | None = None,
        repeated: bool = False,
    ) -> ApplyResult:
        """Apply the objects, then delete what only the inventory names.

        `new` are the entries of the inventory that were recorded for this apply: they were never applied before, so
        they are not read first.
        Without `recheck`, an object whose document was applied last is assumed unchanged and not read: its outcome is
        `unchanged` without `live`. That is for changes in quick succession. Where `recheck` names objects, only these
        are read.
        `leave` tells whether an object may keep a state that differs from the applied one, as another owner has applied
        it. It is called only where the document has not changed.
        `found` are objects that existed before anything of the set was applied: they are never deleted to be created
        anew. It is not known yet of those that are `unsure`: they are created, or, where they exist, written only after
        `note_existing` has returned all that is found.
        `repeated`: all of it was applied as it is, perhaps by another process. A Job that removes itself has run then,
        if nothing of what comes before it is gone.
        Raises nothing for a single object: its outcome has the error, as has every outcome if the cluster can't be
        reached.
        """
        wanted = list(objects)
        known = {entry.identity for entry in inventory} - {entry.identity for entry in new}
        terms = _Terms(known, recheck, leave, found, {each.identity for each in unsure} if note_existing else set())
        outcomes: dict[int, ObjectOutcome] = {}
        for rank in sorted({_rank(each) for each in wanted}):
            members = [number for number, each in enumerate(wanted) if _rank(each) == rank]
            while missing := [number for number in members if number not in outcomes]:
                done = await concurrently(lambda number: self._bring(wanted[number], terms), missing)
                outcomes.update((n, each) for n, each in zip(missing, done, strict=True) if each is not None)
                if note_existing is not None and (existing := terms.existing()):
                    terms.found = await note_existing(existing)
            terms.has_run = repeated and all(each.action != "created" for each in outcomes.values())
            terms.refused.update(kind_named_in(wanted[n]) for n in members if _is_crd_that_failed(outcomes[n]))
        applied = [outcomes[number] for number in range(len(wanted))]
        left_over = left_over_by(applied, inventory)
        going = left_over if prune else []
        if any(outcome.error is not None for outcome in applied):
            going = [entry for entry in going if may_refuse(entry.group, entry.kind)]
        removed = [ObjectOutcome(entry, None, "kept") for entry in left_over if entry not in going]
        removed += (await self.prune(going, applied)).outcomes
        return ApplyResult((*applied, *removed), inventory_after(applied, removed, known | terms.written))

    async def prune(self, entries: Sequence[InventoryEntry], applied: Iterable[ObjectOutcome]) -> ApplyResult:
        """Delete what an apply has left over, but nothing that it has applied: a server may show it in two groups.

        Nothing is deleted while a CRD of it has objects of others, if what runs beside it has no successor.
        """
        outcomes = [each for each in applied if each.index is not None]
        staying = self._uids(outcomes) if entries else frozenset()
        is_last = ends_running(entries, (each.entry for each in outcomes))
        held = await self._removal.held(entries) if is_last else []
        removed = held or await self._removal.remove(entries, staying)
        return ApplyResult(tuple(removed), inventory_after([], removed, set()))

    async def delete(self, inventory: Collection[InventoryEntry]) -> ApplyResult:
        """Delete what the inventory names, in reverse order. What waits for finalizers stays in the inventory.

        Nothing is deleted while a CRD has objects of others: what acts on their finalizers may be deleted with it.
        """
        entries = list(inventory)
        removed = await self._removal.held(entries) or await self._removal.remove(entries)
        return ApplyResult(tuple(removed), inventory_after([], removed, set()))

    async def intended(
        self, objects: Iterable[KubernetesObject], inventory: Collection[InventoryEntry]
    ) -> tuple[InventoryEntry, ...]:
        """Return the inventory with all that an apply of these objects may bring.

        Recorded before the apply, it leaves nothing behind in the cluster when the process dies in between. An
        object of a kind that the cluster does not know yet is left out.
        """
        entries = {entry.identity: entry for entry in inventory}
        for each in objects:
            try:
                resource = await self._client.mapper.resource(each.api_version, each.kind)
            except KindUnknown:
                continue
            entry = self._entry(each, resource)
            entries[entry.identity] = entry
        return tuple(sorted(entries.values()))

    async def difference(
        self, objects: Iterable[KubernetesObject], inventory: Collection[InventoryEntry] = ()
    ) -> tuple[ObjectDifference, ...]:
        """Return what an apply would change, by a dry run on the API server."""
        own, kept = {entry.identity for entry in inventory}, KeptObjects()
        found = await concurrently(lambda each: self._differ(each, own, kept), list(objects))
        named = {difference.entry.identity for difference in found}
        pruned = [ObjectDifference(entry, None, "prune") for entry in inventory if entry.identity not in named]
        return (*found, *pruned)

    async def _differ(self, wanted: KubernetesObject, own: Collection[Identity], kept: KeptObjects) -> ObjectDifference:
        entry, before, document = _unresolved_entry(wanted), None, dict[str, Any]()
        try:
            resource = await self._client.mapper.resource(wanted.api_version, wanted.kind)
            entry = self._entry(wanted, resource)
            document, before = self._document(wanted, entry), await self._read(resource, entry)
            after = await self._client.apply(
                resource,
                entry.name,
                document,
                entry.namespace or None,
                field_manager=self._field_manager,
                dry_run=True,
            )
            kept.keep(before, after)
        except KubeError as error:
            if isinstance(error, Invalid) and before is not None and is_shrunk(entry, error):
                return await self._differ(replace(wanted, document=expanded(wanted.document, before)), own, kept)
            fields = immutable_fields(error) if isinstance(error, Invalid) and before is not None else ()
            if fields and entry.identity in own and self._writer.may_recreate(entry, document, before or {}):
                return ObjectDifference(entry, wanted.index, "recreate", error=unchangeable(fields))
            return ObjectDifference(entry, wanted.index, "fail", error=self._explain(entry, wanted, error))
        size = len(msgspec.json.encode(after))
        return await parse_aside(size, difference_between, entry, wanted.index, before, after)

    async def _bring(self, wanted: KubernetesObject, terms: "_Terms") -> ObjectOutcome | None:
        """Apply one object and return its outcome; None if it exists, and `note_existing` is to be told first."""
        entry = _unresolved_entry(wanted)
        try:
            resource = await self._client.mapper.resource(wanted.api_version, wanted.kind)
            entry = self._entry(wanted, resource)
            try:
                return await self._brought(wanted, resource, entry, terms)
            except KindUnknown:  # not served as it was known, which is forgotten now: it is looked up again
                resource = await self._client.mapper.resource(wanted.api_version, wanted.kind)
            entry = self._entry(wanted, resource)
            return await self._brought(wanted, resource, entry, terms)
        except (KubeError, RecursionError) as error:
            self._memory.forget(entry)
            unreadable = ObjectUnreadable(entry.namespace, entry.name, "", "it is nested too deep")
            cause = error if isinstance(error, KubeError) else unreadable
            return ObjectOutcome(entry, wanted.index, "failed", self._explain(entry, wanted, cause), cause=cause)

    async def _brought(
        self, wanted: KubernetesObject, resource: Resource[JsonObject], entry: InventoryEntry, terms: "_Terms"
    ) -> ObjectOutcome | None:
        """Apply one object and return its outcome; None as in `_bring`.

        Raises KubeError, or RecursionError for one that is nested too deep.
        """
        if (entry.group, entry.kind) in terms.refused:
            return ObjectOutcome(entry, wanted.index, "failed", "the CustomResourceDefinition of its kind has failed")
        document = self._document(wanted, entry)
        target, digest = ObjectTarget(resource, entry, document, terms.written, terms.kept), digest_of(document)
        if entry.identity in terms.unsure:
            if (created := await self._created(target, terms)) is None:
                return None
            done: Written | JsonObject | None = created
        else:
            done = await self._written(target, digest, terms)
        if not isinstance(done, Written):
            return ObjectOutcome(entry, wanted.index, "unchanged", live=done)
        self._memory.remember(entry, digest, done.live, self._field_manager)
        return await self._outcome(wanted, target, done)

    async def _created(self, target: ObjectTarget, terms: "_Terms") -> Written | None:
        """Create an object that may be somebody else's; None if it exists, see `looked_up`. Raises KubeError."""
        entry = target.entry
        if entry.identity in terms.known:  # mostly it does
            terms.note(await look_up(self._client, entry))
        if entry not in terms.looked_up:
            try:
                return await self._writer.create(target)
            except (ClusterUnreachable, ServerUnavailable):
                raise
            except KubeError:
                terms.note(await look_up(self._client, entry))
                if entry not in terms.looked_up:
                    raise
        return None

    async def _written(self, target: ObjectTarget, digest: bytes, terms: "_Terms") -> Written | JsonObject | None:
        """Write an object, unless it is as it is wanted: then return it, None where it was not read or is gone."""
        resource, entry, document, *_ = target
        before: JsonObject | None = None
        same = self._memory.has_same_document(entry, digest)
        if same and not terms.rechecks(entry):
            return None
        if same or (entry.identity in terms.known and not self._memory.knows(entry)):
            if (before := terms.looked_up.get(entry)) is None:
                before = await self._read(resource, entry)
                terms.kept.keep(before)
            if before is not None:
                before = await self._writer.taken_over(target, before)
            if before is not None and (
                self._needs_nothing(entry, digest, document, before)
                or (same and not before["metadata"].get("deletionTimestamp") and terms.leave(entry, before))
            ):
                if (entry.group, entry.kind) == CRD:  # it may have been refused when it was written
                    before = await wait_established(self._client, resource, before)
                    terms.kept.keep(before)
                return before
            if before is None and (same or terms.has_run) and removes_itself(document):
                self._memory.remember(entry, digest, {"metadata": {}}, self._field_manager)
                return None
        is_known = entry.identity in terms.known or self._memory.knows(entry)
        may_delete = entry.identity not in terms.found
        return await self._writer.write(target, before, is_known=is_known, may_delete=may_delete)

    def _needs_nothing(self, entry: InventoryEntry, digest: bytes, document: JsonObject, live: JsonObject) -> bool:
        if self._memory.knows(entry):
            return self._memory.is_as_applied(entry, digest, live, self._field_manager)
        if not is_settled(live, document, self._field_manager):
            return False
        self._memory.remember(entry, digest, live, self._field_manager)  # from a life before this one
        return True

    async def _outcome(self, wanted: KubernetesObject, target: ObjectTarget, done: Written) -> ObjectOutcome:
        """Return the outcome of an object that was applied."""
        entry, (live, created, before) = target.entry, done
        if (entry.group, entry.kind) == CRD:
            live = await wait_established(self._client, target.resource, live)
            target.kept.keep(live)
            self._client.mapper.learn(live)
        action: Action = "created" if created else "unchanged" if is_unchanged(before, live) else "changed"
        changed_by = last_writer(before, self._field_manager) if before is not None and action == "changed" else ""
        return ObjectOutcome(entry, wanted.index, action, live=live, changed_by=changed_by)

    def _uids(self, applied: Iterable[ObjectOutcome]) -> frozenset[str]:
        """Return the identities of what is to stay: a server may show one object in two groups."""
        return frozenset(
            each.live["metadata"].get("uid", "") if each.live is not None else self._memory.uid_of(each.entry)
            for each in applied
        )

    async def _read(self, resource: Resource[JsonObject], entry: InventoryEntry) -> JsonObject | None:
        try:
            return await self._client.get(resource, entry.name, entry.namespace or None)
        except NotFound:
            return None

    def _has_labels(self, _: InventoryEntry, live: JsonObject) -> bool:
        return self._labels.items() <= (live["metadata"].get("labels") or {}).items()

    def _entry(self, wanted: KubernetesObject, resource: Resource[Any]) -> InventoryEntry:
        namespace = (wanted.namespace or self._default_namespace) if resource.namespaced else ""
        return InventoryEntry(resource.group, resource.version, resource.kind, namespace, wanted.name)

    def _document(self, wanted: KubernetesObject, entry: InventoryEntry) -> JsonObject:
        """Return the document as it is sent: with namespace, labels and annotations, without what is not ours."""
        metadata = {key: value for key, value in wanted.document["metadata"].items() if key not in OF_THE_SERVER}
        metadata.pop("namespace", None)
        if entry.namespace:
            metadata["namespace"] = entry.namespace
        for key, ours in (("labels", self._labels), ("annotations", self._annotations)):
            if ours:
                metadata[key] = {**(metadata.get(key) or {}), **ours}
        return {**content_to_apply(entry.group, entry.kind, wanted.document), "metadata": metadata}

    def _explain(self, entry: InventoryEntry, wanted: KubernetesObject, error: KubeError) -> str:
        fields = immutable_fields(error) if isinstance(error, Invalid) else ()
        return way_out(entry, wanted.document, fields, self._recreate_annotation) if fields else explained(error)


@dataclass(eq=False, slots=True)
class _Terms:
    """What one apply goes by, see `Applier.apply`.

    `looked_up`: what is known to exist of the `unsure` objects. `written`: what the server has written of it, whatever
    failed then. `refused`: the kinds whose CRD has failed. `has_run`: what removes itself was applied before.
    """

    known: Collection[Identity]
    recheck: bool | Collection[Identity]
    leave: Callable[[InventoryEntry, JsonObject], bool]
    found: Collection[Identity]
    unsure: set[Identity]
    looked_up: dict[InventoryEntry, JsonObject | None] = field(default_factory=dict)
    written: set[Identity] = field(default_factory=set)
    has_run: bool = False
    refused: set[tuple[str, str]] = field(default_factory=set)
    kept: KeptObjects = field(default_factory=KeptObjects)

    def note(self, found: Mapping[InventoryEntry, JsonObject | None]) -> None:
        """Note what is known to exist. Raises ResponseTooLarge."""
        self.kept.keep(*found.values())
        self.looked_up.update(found)

    def rechecks(self, entry: InventoryEntry) -> bool:
        return self.recheck if isinstance(self.recheck, bool) else entry.identity in self.recheck

    def existing(self) -> dict[InventoryEntry, JsonObject | None]:
        """Return which of the unsure objects exist, once each."""
        found = {entry: live for entry, live in self.looked_up.items() if entry.identity in self.unsure}
        self.unsure.difference_update(each.identity for each in found)
        return found


def _rank(wanted: KubernetesObject) -> int:
    return rank_of(wanted.api_version.rpartition("/")[0], wanted.kind)


def _is_crd_that_failed(outcome: ObjectOutcome) -> bool:
    return outcome.error is not None and (outcome.entry.group, outcome.entry.kind) == CRD


def _unresolved_entry(wanted: KubernetesObject) -> InventoryEntry:
    group, _, version = wanted.api_version.rpartition("/")
    return InventoryEntry(group, version, wanted.kind, wanted.namespace, wanted.name)
