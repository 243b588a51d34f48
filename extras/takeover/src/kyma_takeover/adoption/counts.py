"""Counts what a control plane has, object by object: numbers and names are kept, never the objects."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kyma_takeover import marks
from lifecycle_manager.contract.identity import runtime_id_of
from lifecycle_manager_api import Kyma, Manifest, State, names

MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class FormerSecrets:
    """The Secrets of the former version outside of `kcp-system`. `ca_until` is None where there is no readable CA."""

    namespace: str
    has_ca: bool = False
    ca_until: datetime | None = None
    has_gateway: bool = False
    leaves: int = 0


@dataclass(eq=False)
class Counts:
    """What there is.

    - `modules`: how many Manifests there are of a module in a version
    - `runtimes`: how many Kymas have a runtime id
    - `accesses`: how many access Secrets the Kyma of a name has
    """

    states: Counter[State] = field(default_factory=Counter)
    kymas: set[str] = field(default_factory=set)
    runtimes: Counter[str] = field(default_factory=Counter)
    deleted_kymas: set[str] = field(default_factory=set)
    paused: list[str] = field(default_factory=list)
    modules: Counter[tuple[str, str]] = field(default_factory=Counter)
    manifests: Counter[State] = field(default_factory=Counter)
    deleted_manifests: int = 0
    former_finalizers: int = 0
    unusable: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    accesses: Counter[str] = field(default_factory=Counter)
    unlabelled: list[str] = field(default_factory=list)
    refused_accesses: dict[str, list[str]] = field(default_factory=dict)

    def add_kyma(self, kyma: Kyma) -> None:
        """Count a Kyma."""
        self.states[kyma.status.state] += 1
        self.kymas.add(kyma.metadata.name)
        self.runtimes[runtime_id_of(kyma)] += 1
        if kyma.metadata.being_deleted:
            self.deleted_kymas.add(kyma.metadata.name)
        if kyma.metadata.is_paused:
            self.paused.append(kyma.metadata.name)

    def add_manifest(self, manifest: Manifest) -> None:
        """Count a Manifest. To be called after all Kymas."""
        metadata = manifest.metadata
        self.manifests[manifest.status.state] += 1
        self.modules[metadata.labels.get(names.MODULE_NAME, ""), manifest.spec.version] += 1
        self.deleted_manifests += metadata.being_deleted
        self.former_finalizers += any(each in marks.MANIFEST_FINALIZERS for each in metadata.finalizers)
        kyma = metadata.labels.get(names.KYMA_NAME, "")
        if metadata.being_deleted:
            return  # it goes, whatever it lacks
        if not kyma:
            self.unusable.append(metadata.name)
        elif kyma not in self.kymas:
            self.orphans.append(metadata.name)

    def add_access(self, kyma: str, secret: str, *, is_labelled: bool, refusal: str) -> None:
        """Count an access Secret; `refusal` says why its kubeconfig is not used, empty where it is."""
        self.accesses[kyma] += 1
        if not is_labelled:
            self.unlabelled.append(secret)
        if refusal:
            self.refused_accesses.setdefault(refusal, []).append(secret)

    def without_access(self) -> list[str]:
        """Return the names of Kymas without an access Secret; that of one that is deleted may go before it."""
        return sorted(each for each in self.kymas - self.deleted_kymas if not self.accesses[each])

    def with_several_accesses(self) -> list[str]:
        """Return the names of Kymas with several access Secrets."""
        return sorted(name for name, count in self.accesses.items() if count > 1 and name in self.kymas)

    def shared_runtimes(self) -> list[str]:
        """Return the runtime ids that several Kymas have."""
        return sorted(name for name, count in self.runtimes.items() if count > 1)


def named(found: Sequence[str]) -> str:
    """Return the first of some names as a text."""
    return ", ".join(found[:MAX_EXAMPLES]) + (", …" if len(found) > MAX_EXAMPLES else "")
