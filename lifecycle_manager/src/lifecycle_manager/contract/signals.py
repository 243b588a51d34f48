"""Typed messages between domains, for what no resource shows. Published and received through the Manager.

A signal is a hint: its receiver enqueues keys and reads the state again. `ObjectChanged` travels on as the cause
of the reconcile, so the reconcile knows which object to read and which write the read has to show.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Self

from kube_runtime import ObjectKey
from lifecycle_manager_api import ResourceReference, SyncResource, names


class ObjectReference(NamedTuple):
    """One object in an SKR, whatever its version."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group} {self.namespace}/{self.name}"

    @classmethod
    def to(cls, reference: ResourceReference) -> Self:
        """Return the reference to the object of which another one names a version."""
        group = reference.api_version.rpartition("/")[0]
        return cls(group, reference.kind, reference.namespace, reference.name)


class ReadScope(Enum):
    """A cause that says what a reconcile reads in the SKR."""

    EVERYTHING = "everything"
    """Every object: somebody may have changed one, or what was recorded no longer counts."""
    DIFFERING = "differing"
    """The objects whose records in the control plane are gone, or not those that were written."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a change came from, carried from cluster to cluster so that one change can be followed."""

    event_id: str = ""
    traceparent: str = ""
    observed_at: str = ""


@dataclass(frozen=True, slots=True)
class KymaSignal:
    """A signal about one Kyma, which it names as in KCP."""

    kyma: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(names.KCP_NAMESPACE, self.kyma)


@dataclass(frozen=True, slots=True)
class ObjectChanged(KymaSignal):
    """A user changed an object in an SKR. `resource_version` is that of the object before the change.

    `operation` is CREATE, UPDATE or DELETE.
    """

    reference: ObjectReference
    operation: str
    uid: str = ""
    resource_version: str = ""
    trace: Trace = Trace()


@dataclass(frozen=True, slots=True)
class UnclaimedChange(KymaSignal):
    """A user changed an object in an SKR that no controller claims by ObjectChanged: the Kyma is reconciled."""


@dataclass(frozen=True, slots=True)
class ResyncReported(KymaSignal):
    """The Watcher of an SKR may have lost events. How often that counts is limited."""


@dataclass(frozen=True, slots=True)
class ResyncRequested(KymaSignal):
    """Events of an SKR may be lost: everything of that Kyma is read again."""


@dataclass(frozen=True, slots=True)
class ModuleConfigsWritten(KymaSignal):
    """The ModuleConfigs of a module were written, or can't be in its namespace: `problem` says why.

    No ModuleConfig can say so: the first one may be what can't be written.
    """

    module: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClusterSilent(KymaSignal):
    """A request to an SKR timed out or could not connect."""


@dataclass(frozen=True, slots=True)
class ClusterReachable(KymaSignal):
    """An SKR that was silent answers again, or its credentials changed."""


@dataclass(frozen=True, slots=True)
class ClusterReplaced(KymaSignal):
    """Another cluster is behind the Kyma than before, or it lost its objects: nothing recorded of it counts."""


@dataclass(frozen=True, slots=True)
class WebhookRulesChanged(KymaSignal):
    """The API server of an SKR uses other rules of the webhook: changes made before that were not reported."""


@dataclass(frozen=True, slots=True)
class WatcherEventReceived(KymaSignal):
    """An event of the Watcher of an SKR arrived: an answer to LM's own test, or another one.

    `at` is the monotonic time of its arrival. Of several that wait for a reconcile the newest is enough.
    """

    is_canary: bool
    at: float = field(compare=False)


@dataclass(frozen=True, eq=False, slots=True)
class SyncResourceApplied:
    """A SyncResource has another status, which is about to be written to KCP.

    What its user waits for is written to the SKR meanwhile, not a request and an event later.
    """

    resource: SyncResource


@dataclass(frozen=True, slots=True)
class DescriptorFound:
    """The descriptor of a ModuleTemplate can be used now, or can't for now: it was looked up, or verified."""

    namespace: str
    template: str


@dataclass(frozen=True, slots=True)
class ModulesProtected:
    """The admission policy that keeps modules apart is in force: what was refused without it can be applied."""


@dataclass(frozen=True, slots=True)
class CAsChanged:
    """Other CAs are in force for Watchers and for what this process serves."""
