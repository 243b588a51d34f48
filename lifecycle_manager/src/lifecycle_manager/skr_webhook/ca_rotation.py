"""Replaces the CA of KCP, one step at a time, and has this process use the CAs that are in force.

Every replica runs this controller. A step is decided on one version of the Secret and taken by the first replica; the
others read the result. Which CAs an SKR has is recorded on its Kyma once they were applied there. Each step is an Event
of the Secret.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import structlog
from prometheus_client.core import Metric

from kube_runtime import Causes, Change, Client, Clock, Conflict, Controller, Informer, Manager, ObjectKey, Result
from kyma_certs import CAs, RotationRules, Step, describe, next_step
from lifecycle_manager.contract.options import (
    GARDENER,
    CertManagement,
    Duration,
    Namespace,
    OptionalNamespace,
    cert_management_option,
    issuer_namespace_option,
    istio_namespace_option,
    option,
)
from lifecycle_manager.contract.resources import KYMAS, SECRETS, Secret
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.skr import OUR_SECRETS
from lifecycle_manager.skr_webhook.ca_store import CAStore, StoredCAs
from lifecycle_manager.skr_webhook.metrics import AtScrape, ca_metrics
from lifecycle_manager_api import Kyma

IDLE_SECONDS = 3600.0
ROTATING_SECONDS = 2.0
MAX_NAMES = 5

EVENTS: Mapping[Step, tuple[str, str]] = {
    Step.ANNOUNCE: ("CAAnnounced", "another CA is trusted too, and issues once every cluster trusts it"),
    Step.NOTE_SPREAD: ("CASpread", "every cluster has the CAs of this phase of the rotation"),
    Step.SWITCH: ("CASwitched", "the new CA issues; the former is trusted while it has certificates"),
    Step.DROP: ("CAReplaced", "the former CA is not trusted any more"),
}
"""The reason and the note of the Event for each step."""

log = structlog.get_logger("ca")


@dataclass(eq=False)
class CARotation:
    """Keeps the CAs up to date. `in_force` are those of this process, None before `start`."""

    manager: Manager
    store: CAStore
    kymas: Informer[Kyma]
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
        """Follow the Secret, and take the next step of a rotation where one is due. Raises KubeError."""
        stored = await self.store.ensure()
        self._follow(stored)
        step = next_step(
            stored.cas,
            self.rules,
            all_updated=not self.clusters_behind(),
            asked=stored.rotation_requested,
            now=self.manager.clock.now(),
        )
        if step is not None:
            stored = await self._take(step, stored)
        return Result(requeue_after=self._requeue_after(stored.cas))

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

    async def _take(self, step: Step, stored: StoredCAs) -> StoredCAs:
        try:
            after = await self.store.take(step, stored)
        except Conflict:  # another replica was faster
            after = await self.store.ensure()
        else:
            log.info("CA rotation", step=str(step), in_force=after.cas.fingerprint)
            self._record_event(step, after)
        self._follow(after)
        return after

    def _record_event(self, step: Step, stored: StoredCAs) -> None:
        """Record an Event for a step; a step that did not wait for every SKR is a warning that names some of them."""
        reason, note = EVENTS[step]
        behind = self.clusters_behind() if step in {Step.SWITCH, Step.DROP} else []
        if behind:
            named = ", ".join(behind[:MAX_NAMES])
            note = f"{note}; the time to wait for {len(behind)} clusters was over: {named}"
        kind: Literal["Normal", "Warning"] = "Warning" if behind else "Normal"
        self.manager.events.record(SECRETS, stored.secret, reason, note, type=kind, action="RotateCA")

    def _requeue_after(self, cas: CAs) -> float:
        """Return the seconds until there may be something to do: soon, in an hour, or when a rotation is due."""
        if cas.rotating:
            return ROTATING_SECONDS
        due = describe(cas.signing.certificate_pem).not_after - self.rules.renew_before
        return min(IDLE_SECONDS, max(ROTATING_SECONDS, (due - self.manager.clock.now()) / timedelta(seconds=1)))

    def _follow(self, stored: StoredCAs) -> None:
        """Put the CAs in force in this process."""
        cas, self.is_adopted = stored.cas, stored.is_adopted
        before, self.in_force = self.in_force, cas
        if before is not None and before.fingerprint != cas.fingerprint:
            self.manager.publish(CAsChanged())


@dataclass(frozen=True, slots=True, kw_only=True)
class CASettings:
    """The lifetime of CAs, the times of their rotation, and where the CA of a former version is."""

    lifetime: Duration = option(timedelta(days=3650), "self-signed-ca-duration", "lifetime of a CA")
    renew_before: Duration = option(
        timedelta(days=365), "self-signed-ca-renew-before", "time before its expiry at which a CA is replaced"
    )
    grace: Duration = option(
        timedelta(minutes=10),
        "self-signed-ca-rotation-grace",
        "time by which a phase of a CA rotation goes on after every SKR has it",
    )
    timeout: Duration = option(
        timedelta(days=7),
        "self-signed-ca-rotation-timeout",
        "maximum time that an unreachable SKR delays a phase of a CA rotation",
    )
    cert_management: CertManagement = cert_management_option()
    issuer_namespace: OptionalNamespace = issuer_namespace_option()
    istio_namespace: Namespace = istio_namespace_option()

    def __post_init__(self) -> None:
        """Refuse a CA that would be replaced without end. Raises ValueError."""
        if self.renew_before >= self.lifetime:
            raise ValueError("self-signed-ca-renew-before must be shorter than self-signed-ca-duration")

    def store(self, kcp: Client, clock: Clock) -> CAStore:
        """Return where the CAs are kept."""
        return CAStore(kcp, clock, lifetime=self.lifetime, former_namespace=self.former_namespace)

    @property
    def rotation(self) -> RotationRules:
        """The times of a rotation."""
        return RotationRules(renew_before=self.renew_before, grace=self.grace, timeout=self.timeout)

    @property
    def former_namespace(self) -> str:
        """Where the CA of a former version is, "" for nowhere. With Gardener its Issuer may be in another namespace."""
        is_gardener = self.issuer_namespace and self.cert_management == GARDENER
        return self.istio_namespace if is_gardener else self.issuer_namespace


def setup_ca(manager: Manager, store: CAStore, rules: RotationRules) -> CARotation:
    """Keep the CAs on every replica: each serves with them, and two that take a step at once agree.

    `store` has a client that is not fenced, for the same reason.
    """
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    rotation = CARotation(manager, store, manager.informer(KYMAS), rules)

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
