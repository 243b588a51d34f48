"""Plans a Kyma without a server: each step that is planned succeeds, or is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kube_runtime import End, Step, StepFailure
from lifecycle_manager.kyma.crd import KymaCrd
from lifecycle_manager.kyma.plan import plan
from lifecycle_manager.kyma.pull_secret.plan import SyncPullSecret
from lifecycle_manager.kyma.settings import KymaSettings
from lifecycle_manager.kyma.snapshot import KymaSnapshot, SkrView
from lifecycle_manager.kyma.steps import (
    AddFinalizer,
    ChangeModules,
    CreateKyma,
    InstallCrd,
    KymaDone,
    ModuleChange,
    ReadSkr,
    SkrStep,
    WriteSkrStatus,
)
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.rollout import Timing
from lifecycle_manager_api import Kyma, KymaStatus, names
from tests import builders

MAX_STEPS = 20


def snapshot(
    kyma: Kyma, skr: SkrView | Exception, offer: Offer, *, crd: str = "hash", settings: Any = None, **more: Any
) -> KymaSnapshot:
    """Return a snapshot after the SKR was read, or after that failed."""
    failures = (StepFailure(ReadSkr(), skr),) if isinstance(skr, Exception) else ()
    return KymaSnapshot(
        kyma=kyma,
        offer=offer,
        crd=KymaCrd({}, crd),
        skr=None if isinstance(skr, Exception) else skr,
        failures=failures,
        settings=KymaSettings(**settings or {}),
        **{"timing": Timing(builders.NOW), **more},
    )


@dataclass(frozen=True)
class Planned:
    """The steps of one reconcile, and its end."""

    steps: tuple[Step, ...]
    end: KymaDone

    @property
    def in_skr(self) -> tuple[Step, ...]:
        return tuple(each for each in self.steps if isinstance(each, SkrStep | SyncPullSecret))

    @property
    def in_kcp(self) -> tuple[Step | ModuleChange, ...]:
        """Return the steps in KCP, and the changes of modules."""
        others = (each for each in self.steps if each not in self.in_skr and not isinstance(each, ChangeModules))
        return (*self.changes, *others)

    @property
    def changes(self) -> tuple[ModuleChange, ...]:
        return tuple(change for each in self.steps if isinstance(each, ChangeModules) for change in each.changes)

    @property
    def shown(self) -> KymaStatus:
        (written,) = [each.status for each in self.steps if isinstance(each, WriteSkrStatus)]
        return written

    @property
    def status(self) -> KymaStatus:
        assert self.end.status is not None, "no status is written"
        return self.end.status

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing is written to the SKR or to KCP."""
        return not self.steps and self.end.status is None


def planned(seen: KymaSnapshot, refused: Mapping[type[Step], Exception] | None = None) -> Planned:
    """Take the planned steps to their end, of which some types are refused."""
    steps: list[Step] = []
    while not isinstance(step := plan(seen), End):
        assert len(steps) < MAX_STEPS, f"no end: {steps}"
        assert step not in steps, f"planned twice: {step}"
        steps.append(step)
        error = (refused or {}).get(type(step))
        if error is not None:
            seen = replace(seen, failures=(*seen.failures, StepFailure(step, error)))
        else:
            seen = seen.after(step, **outcome(seen, step))
    return Planned(tuple(steps), step)


def outcome(seen: KymaSnapshot, step: Step) -> dict[str, Any]:
    match step:
        case AddFinalizer():
            metadata = msgspec.structs.replace(seen.kyma.metadata, finalizers=(names.KYMA_FINALIZER,))
            return {"kyma": msgspec.structs.replace(seen.kyma, metadata=metadata)}
        case InstallCrd():
            return {"installed_crd": seen.crd.digest}
        case CreateKyma(spec, labels, annotations):
            created = builders.kyma("default", labels=labels, annotations=annotations, namespace="kyma-system")
            return {"skr": SkrView(msgspec.structs.replace(created, spec=spec))}
        case SyncPullSecret():
            assert seen.pull_secret is not None
            return {"pull_secret": seen.pull_secret.written()}
        case _:
            return {}
