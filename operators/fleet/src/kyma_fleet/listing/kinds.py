"""What `klm get` lists, and the columns of each kind: pure functions from an object to its rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from kube_runtime import Resource
from kube_runtime.ages import age
from kyma_fleet.explanation.marks import pause_of
from kyma_fleet.listing.names import full_name
from kyma_fleet.listing.selection import OF_CONFIGS, OF_KYMAS, OF_MANIFESTS, Selection
from lifecycle_manager.contract.fleet import GOOD
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_ROLLOUTS,
    SYNC_RESOURCES,
    DatedReleaseMeta,
)
from lifecycle_manager.rollout.standing import channel_of, standing_of
from lifecycle_manager_api import ApiObject, Kyma, Manifest, ModuleConfig, ModuleRollout, SyncResource, find, names
from lifecycle_manager_api.documents import plain

T = TypeVar("T", bound=ApiObject)
Row = tuple[str, ...]
Document = Mapping[str, Any]
NONE = "-"


@dataclass(frozen=True, slots=True)
class Columns:
    """The titles of a table; `state` is the index of the column with a state, -1 for none."""

    titles: Sequence[str]
    wide: Sequence[str]
    state: int = -1


@dataclass(frozen=True, slots=True)
class ListedKind(Generic[T]):
    """One kind that can be listed.

    - `namespace`: where its objects are; None for every namespace
    - `filters`: the fields of a Selection that mean something for it
    - `selector`: the label selector for the API server
    - `rows`: the rows of one object that were asked for, without and with the wide columns
    - `documents`: the same as documents; None where the object itself is one
    """

    name: str
    resource: Resource[T]
    namespace: str | None
    columns: Columns
    filters: frozenset[str]
    selector: Callable[[Selection], str | None]
    selects: Callable[[Selection, T], bool]
    rows: Callable[[T, Selection, datetime], Iterator[tuple[Row, Row]]]
    documents: Callable[[T, Selection], Iterator[Document]] | None = None
    named_objects: bool = True


def _kyma_rows(kyma: Kyma, _selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
    status, labels = kyma.status, kyma.metadata.labels
    ready = find(status.conditions, "Ready")
    good = sum(each.state in GOOD for each in status.modules)
    pause = pause_of(kyma.metadata)
    yield (
        (
            kyma.metadata.name,
            status.state.value or NONE,
            f"{good}/{len(status.modules)}",
            status.active_channel or kyma.spec.channel,
            labels.get(names.REGION) or NONE,
            age(kyma.metadata.creation_timestamp, now),
            ready.reason if ready is not None else NONE,
        ),
        (
            "yes" if pause is not None else "no",
            labels.get(names.BROKER_PLAN_NAME) or NONE,
            labels.get(names.RUNTIME_ID) or NONE,
            ready.message if ready is not None else NONE,
        ),
    )


def _paused_rows(kyma: Kyma, _selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
    pause = pause_of(kyma.metadata)
    if pause is None:
        return
    since = age(pause.since, now)
    reason = pause.reason or "the label was set by other means"
    yield (kyma.metadata.name, kyma.status.state.value or NONE, since, pause.by or NONE, reason), ()


def _module_rows(kyma: Kyma, selection: Selection, _now: datetime) -> Iterator[tuple[Row, Row]]:
    for each in kyma.status.modules:
        if selection.of_module(each):
            row = (kyma.metadata.name, each.name, each.state.value or NONE, each.version or NONE, each.channel or NONE)
            manifest = each.manifest.metadata.name if each.manifest is not None else NONE
            region = kyma.metadata.labels.get(names.REGION) or NONE
            yield (*row, each.message or NONE), (region, manifest)


def _module_documents(kyma: Kyma, selection: Selection) -> Iterator[Document]:
    for each in kyma.status.modules:
        if selection.of_module(each):
            yield {"kyma": kyma.metadata.name, **plain(each)}


def _release_rows(release: DatedReleaseMeta, selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
    spec = release.spec
    channels = ", ".join(f"{each.channel} {each.version}" for each in spec.channels)
    for_whom = [word for word, is_given in (("beta", spec.beta), ("internal", spec.internal)) if is_given]
    for_whom += ["selected"] if spec.kyma_selector is not None else []
    mandatory = spec.mandatory.version if spec.mandatory is not None else NONE
    row = (spec.module_name, mandatory, ", ".join(for_whom) or "all", age(release.metadata.written_at, now))
    yield (*row, channels or NONE), (spec.ocm_component_name or NONE,)


def _manifest_rows(manifest: Manifest, _selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
    ready, labels = find(manifest.status.conditions, "Ready"), manifest.metadata.labels
    yield (
        (
            manifest.metadata.name,
            manifest.status.state.value or NONE,
            labels.get(names.KYMA_NAME) or NONE,
            labels.get(names.MODULE_NAME) or NONE,
            manifest.spec.version or NONE,
            age(manifest.metadata.creation_timestamp, now),
            ready.reason if ready is not None else NONE,
        ),
        (str(len(manifest.status.synced)), ready.message if ready is not None else NONE),
    )


def _part_rows(part: ModuleConfig | SyncResource, _selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
    ready, metadata = find(part.status.conditions, "Ready"), part.metadata
    reason, message = (ready.reason, ready.message) if ready is not None else (NONE, NONE)
    objects = (part.status.objects or NONE,) if isinstance(part, SyncResource) else ()
    own = (metadata.name, part.status.state.value or NONE, part.spec.kyma, part.spec.module, *objects)
    yield (*own, age(metadata.creation_timestamp, now), reason), (metadata.namespace, message)


def beside(rollouts: Iterable[ModuleRollout], kind: ListedKind[ModuleRollout]) -> ListedKind[ModuleRollout]:
    """Return the kind of rollouts with the words that `klm rollout` has for each of them beside the others."""
    known = {each.metadata.name: each for each in rollouts}

    def rows(rollout: ModuleRollout, selection: Selection, now: datetime) -> Iterator[tuple[Row, Row]]:
        known[rollout.metadata.name] = rollout
        word = standing_of(rollout, channel_of(known.values(), rollout)).word
        return _rollout_rows(rollout, selection, now, word)

    return replace(kind, rows=rows)


def _rollout_rows(
    rollout: ModuleRollout, _selection: Selection, now: datetime, word: str = ""
) -> Iterator[tuple[Row, Row]]:
    spec, status = rollout.spec, rollout.status
    updated = f"{status.updated}/{status.clusters}"
    row = (rollout.metadata.name, word or status.phase, spec.module_name, spec.channel, spec.version, updated)
    yield (
        (*row, str(status.failed), age(rollout.metadata.creation_timestamp, now)),
        (status.wave or NONE, status.message),
    )


KYMA_COLUMNS = ("NAME", "STATE", "MODULES", "CHANNEL", "REGION", "AGE", "REASON")
PART_COLUMNS = ("NAME", "STATE", "KYMA", "MODULE", "AGE", "REASON")
OF_ALL = frozenset({"name", "labels"})

KINDS: tuple[ListedKind[Any], ...] = (
    ListedKind(
        "kymas",
        KYMAS,
        names.KCP_NAMESPACE,
        Columns(KYMA_COLUMNS, ("PAUSED", "PLAN", "RUNTIME", "MESSAGE"), 1),
        OF_ALL | {"state", "reason", "module", "version", "channel", "region", "paused"},
        lambda wanted: wanted.label_selector(**OF_KYMAS),
        Selection.of_kyma,
        _kyma_rows,
    ),
    ListedKind(
        "modules",
        KYMAS,
        names.KCP_NAMESPACE,
        Columns(("KYMA", "MODULE", "STATE", "VERSION", "CHANNEL", "MESSAGE"), ("REGION", "MANIFEST"), 2),
        OF_ALL | {"kyma", "state", "module", "version", "channel", "region"},
        lambda wanted: wanted.label_selector(**OF_KYMAS),
        lambda wanted, kyma: not wanted.kyma or kyma.metadata.name == wanted.kyma,
        _module_rows,
        _module_documents,
        named_objects=False,
    ),
    ListedKind(
        "releases",
        DATED_RELEASE_METAS,
        names.KCP_NAMESPACE,
        Columns(("MODULE", "MANDATORY", "FOR", "CHANGED", "CHANNELS"), ("COMPONENT",)),
        OF_ALL | {"module", "version", "channel"},
        lambda wanted: wanted.label_selector(),
        Selection.of_release,
        _release_rows,
        named_objects=False,
    ),
    ListedKind(
        "manifests",
        MANIFESTS,
        names.KCP_NAMESPACE,
        Columns(("NAME", "STATE", "KYMA", "MODULE", "VERSION", "AGE", "REASON"), ("OBJECTS", "MESSAGE"), 1),
        OF_ALL | {"kyma", "state", "reason", "module", "version", "channel", "paused"},
        lambda wanted: wanted.label_selector(**OF_MANIFESTS),
        Selection.of_manifest,
        _manifest_rows,
    ),
    ListedKind(
        "configs",
        MODULE_CONFIGS,
        None,
        Columns(PART_COLUMNS, ("NAMESPACE", "MESSAGE"), 1),
        OF_ALL | {"kyma", "state", "reason", "module"},
        lambda wanted: wanted.label_selector(**OF_CONFIGS),
        Selection.of_part,
        _part_rows,
    ),
    ListedKind(
        "syncresources",
        SYNC_RESOURCES,
        None,
        Columns((*PART_COLUMNS[:4], "OBJECTS", *PART_COLUMNS[4:]), ("NAMESPACE", "MESSAGE"), 1),
        OF_ALL | {"kyma", "state", "reason", "module"},
        lambda wanted: wanted.label_selector(),
        Selection.of_part,
        _part_rows,
    ),
    ListedKind(
        "rollouts",
        MODULE_ROLLOUTS,
        names.KCP_NAMESPACE,
        Columns(("NAME", "PHASE", "MODULE", "CHANNEL", "VERSION", "UPDATED", "FAILED", "AGE"), ("WAVE", "MESSAGE")),
        OF_ALL | {"module", "channel"},
        lambda wanted: wanted.label_selector(**OF_MANIFESTS),
        Selection.of_rollout,
        _rollout_rows,
    ),
)

PAUSED_KYMAS = replace(KINDS[0], columns=Columns(("NAME", "STATE", "SINCE", "BY", "REASON"), (), 1), rows=_paused_rows)


def kind_named(name: str) -> ListedKind[Any] | None:
    """Return the kind that an operator named, by its plural, singular or short name."""
    return next((each for each in KINDS if each.name == full_name(name)), None)
