"""Limits this version to some Kymas, while the former version manages the others of the same control plane.

A Kyma is selected that has certain labels, and from which the former version is kept: `skip-reconciliation`, for the
former version alone. So no mistake in a label has both versions work on one cluster. Everything of the other Kymas is
left alone, and what belongs to no Kyma, such as the status of Watcher CRs, is left to the former version.
"""

import asyncio
from collections.abc import Mapping

import structlog

from kube_runtime import Change, Informer, Manager, ObjectKey, Sharding
from kyma_takeover.sharding import ShardingOfReplicas
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import Kyma, names

log = structlog.get_logger("takeover")

GATHERING_SECONDS = 0.1
"""For how long changes of labels are gathered."""


class SelectedKymas(ShardingOfReplicas):
    """A sharding that has the selected Kymas alone. `follow` comes before `run`."""

    def __init__(self, replicas: Sharding, labels: Mapping[str, str]) -> None:
        super().__init__(replicas)
        self._labels = labels
        self._kymas: Informer[Kyma] | None = None
        self._moved: dict[str, bool] = {}
        """Which Kymas have changed lately, and whether they are selected: each call of `begin` walks over all keys."""

    def follow(self, manager: Manager) -> None:
        """Read Kymas by the informer of a Manager, and follow their labels."""
        self._kymas = manager.informer(KYMAS)
        self._kymas.on_change(self._changed)
        log.warning("the fleet is split: only Kymas with these labels are managed", labels=dict(self._labels))

    def selects(self, kyma: Kyma) -> bool:
        """Tell whether a Kyma is managed by this version, by whichever replica."""
        labels = kyma.metadata.labels
        return kyma.metadata.is_kept_from_former_version and self._labels.items() <= labels.items()

    def owns(self, owner: str) -> bool:
        """Tell whether an owner is a selected Kyma of this replica. One that does not exist is not selected."""
        kyma = self._kymas.get(ObjectKey(names.KCP_NAMESPACE, owner)) if self._kymas is not None else None
        return kyma is not None and self.selects(kyma) and self.replicas.owns(owner)

    def _changed(self, change: Change[Kyma]) -> None:
        """Begin with a Kyma that is selected now, and forget one that no longer is."""
        was, new = change.old is not None and self.selects(change.old), change.new
        if self._work is None or new is None or was == self.selects(new):
            return
        log.info("Kyma left to the former version" if was else "Kyma taken over", kyma=new.metadata.name)
        if not self._moved:
            asyncio.get_running_loop().call_later(GATHERING_SECONDS, self._begin)
        self._moved[new.metadata.name] = not was

    def _begin(self) -> None:
        moved, self._moved = self._moved, {}
        if self._work is not None:
            gained = frozenset(name for name, is_selected in moved.items() if is_selected)
            self._work.begin(gained, moved.keys() - gained)
