"""Replaces the CA of KCP, one step at a time, and has this process use the CAs that are in force.

Every replica runs the controller `ca`, whose one key is the Secret of the CAs; a change of it triggers it, and the
time at which a step may be due. A step is decided on one version of the Secret and taken by the first replica; the
others read the result. Which CAs an SKR has is recorded on its Kyma once they were applied there. Each step is an Event
of the Secret.

May delete: nothing. A CA that issued certificates in use is dropped from the Secret only once every SKR has another,
or the longest time to wait for one is over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import structlog
from prometheus_client.core import Metric

from kube_runtime import Causes, Change, Conflict, Controller, Informer, Manager, ObjectKey, Result
from kyma_certs import CLOCK_SKEW, CAs, RotationRules, RotationStep, describe, next_step
from lifecycle_manager.contract.resources import KYMAS, SECRETS, Secret
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager.watcher_certificates.ca_store import CAStore, StoredCAs
from lifecycle_manager.watcher_certificates.metrics import AtScrape, ca_metrics
from lifecycle_manager_api import Kyma

IDLE_SECONDS = 3600.0
ROTATING_SECONDS = 2.0
MAX_NAMES = 5

EVENTS: Mapping[RotationStep, tuple[str, str]] = {
    RotationStep.ANNOUNCE: ("CAAnnounced", "another CA is trusted too, and issues once every cluster trusts it"),
    RotationStep.NOTE_SPREAD: ("CASpread", "every cluster has the CAs of this phase of the rotation"),
    RotationStep.SWITCH: ("CASwitched", "the new CA issues; the former is trusted while it has certificates"),
    RotationStep.DROP: ("CAReplaced", "the former CA is not trusted any more"),
}
"""The reason and the note of the Event for each step."""

log = structlog.get_logger("ca")


def setup_ca(manager: Manager, store: CAStore, rules: RotationRules) -> "CARotation":
    """Keep the CAs on every replica: each serves with them, and two that take a step at once agree.

    `store` has a client that is not fenced, for the same reason.
    """
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    rotation = CARotation(manager, store, manager.informer(KYMAS), secrets, rules)

    def is_ca(change: Change[Secret]) -> bool:
        secret = change.new or change.old
        return secret is not None and SECRETS.key_of(secret) == store.key

    def metrics() -> Iterator[Metric]:
        return ca_metrics(rotation.in_force, rotation.clusters_behind, manager.clock.now())

    manager.registry.register(AtScrape(metrics))
    manager.before_start(rotation.start)
    controller: Controller[ObjectKey, None] = manager.controller(
        "ca", owner=lambda _: "", exists=lambda _: True, concurrency=1
    )
    controller.watches(secrets, when=is_ca)
    controller.starts_with(lambda: (store.key,))
    controller.reconciles(rotation.reconcile)
    return rotation


def until_next_look(cas: CAs, rules: RotationRules, now: datetime) -> float:
    """Return in how many seconds a step may be due."""
    if cas.rotating:
        return ROTATING_SECONDS
    due = describe(cas.signing.certificate_pem).not_after - rules.renew_before
    return min(IDLE_SECONDS, max(ROTATING_SECONDS, (due - now) / timedelta(seconds=1)))


@dataclass(eq=False)
class CARotation:
    """Keeps the CAs up to date. `in_force` are those of this process, None before `start`."""

    manager: Manager
    store: CAStore
    kymas: Informer[Kyma]
    secrets: Informer[Secret]
    rules: RotationRules
    in_force: CAs | None = field(default=None, init=False)
    is_adopted: bool = field(default=False, init=False)
    """Whether the CA of a former version is trusted, and so are the Watchers that it installed."""

    @property
    def current(self) -> CAs:
        """The CAs in force in this process, after `start`."""
        if self.in_force is None:
            raise RuntimeError("the CAs are read at the start of the manager, which has not run yet")
        return self.in_force

    async def start(self) -> None:
        """Read the CAs, or create the first one. Raises CASecretInvalid or KubeError."""
        self._follow(await self.store.ensure())

    async def reconcile(self, _key: ObjectKey, _causes: Causes, _state: None) -> Result:
        """Use what the Secret has, or another that is created, and take the next step of a rotation where one is due.

        Raises CASecretInvalid or KubeError.
        """
        stored, now = await self.store.ensure(self.secrets.get(self.store.key)), self.manager.clock.now()
        self._follow(stored)
        behind = self.clusters_behind()
        begins = describe(stored.cas.signing.certificate_pem).not_before
        is_early = begins > now + CLOCK_SKEW  # a clock was ahead that created it, by more than clocks differ
        asked = stored.rotation_requested or (stored.is_adopted and not behind) or is_early
        step = next_step(stored.cas, self.rules, all_updated=not behind, asked=asked, now=now)
        if step is not None:
            try:
                stored = await self.store.take(step, stored)
            except Conflict:  # another replica was faster, and the watch reports its step
                return Result(ROTATING_SECONDS)
            log.info("CA rotation", step=str(step), in_force=stored.cas.fingerprint)
            self.secrets.wrote(stored.secret)
            self._record_event(step, stored.secret, behind)
            self._follow(stored)
        return Result(until_next_look(stored.cas, self.rules, now))

    def clusters_behind(self) -> list[str]:
        """Return the names of the Kymas whose SKR has a Watcher without the CAs in force.

        During a takeover, one without this version's Watcher has the former one, which trusts the adopted CA alone.
        """
        return [
            kyma.metadata.name
            for kyma in self.kymas.list()
            if not kyma.metadata.being_deleted
            and (self.is_adopted or kyma.status.records.watcher)
            and kyma.status.records.trust != self.current.fingerprint
        ]

    def _record_event(self, step: RotationStep, secret: Secret, behind: Sequence[str]) -> None:
        """Record an Event for a step; a step that did not wait for every SKR is a warning that names some of them."""
        reason, note = EVENTS[step]
        kind: Literal["Normal", "Warning"] = "Normal"
        if behind and step in {RotationStep.SWITCH, RotationStep.DROP}:
            kind, named = "Warning", ", ".join(behind[:MAX_NAMES])
            note = f"{note}; the time to wait for {len(behind)} clusters was over: {named}"
        self.manager.events.record(SECRETS, secret, reason, note, type=kind, action="RotateCA")

    def _follow(self, stored: StoredCAs) -> None:
        cas, self.is_adopted = stored.cas, stored.is_adopted
        before, self.in_force = self.in_force, cas
        if before is not None and before.fingerprint != cas.fingerprint:
            self.manager.publish(CAsChanged())
