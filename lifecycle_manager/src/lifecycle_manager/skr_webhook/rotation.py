"""Replaces the authority of the control plane, one step at a time, and has this process follow what is in force.

Every replica runs this. A step is decided on one version of the Secret and taken by the replica that is first; the
others read what came of it. What a cluster has is noted on its Kyma, once it was applied there. Each step is told in an
Event about the Secret.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from kube_runtime import Conflict, EventRecorder, Informer, ObjectKey, Result
from kyma_certs import Authorities, RotationRules, Step, describe, next_step
from lifecycle_manager.resources import SECRETS
from lifecycle_manager.skr_webhook.authority import AuthorityStore, StoredAuthorities
from lifecycle_manager.skr_webhook.records import TRUST_RECORD, WATCHER_RECORD
from lifecycle_manager_api import Kyma

CALM_SECONDS = 3600.0
ROTATING_SECONDS = 2.0
MOST_NAMED = 5

NEWS: Mapping[Step, tuple[str, str]] = {
    Step.ANNOUNCE: ("AuthorityAnnounced", "another authority is trusted too, and issues once every cluster trusts it"),
    Step.NOTE_SPREAD: ("AuthoritySpread", "every cluster has what this phase of the rotation brought"),
    Step.SWITCH: (
        "AuthoritySwitched",
        "the new authority issues; the former is trusted while it has certificates",
    ),
    Step.DROP: ("AuthorityReplaced", "the former authority is not trusted any more"),
}
"""The reason and the note of the Event that tells of a step."""

log = structlog.get_logger("authority")

Adopt = Callable[[Authorities], Awaitable[None]]


async def nothing_to_adopt(_: Authorities) -> None:
    """Do nothing: what there is when nobody in this process serves or installs anything yet."""


@dataclass(eq=False)
class AuthorityRotation:
    """Keeps the authorities fresh. `current` is what is in force; `adopt` brings it to what serves in this process."""

    store: AuthorityStore
    kymas: Informer[Kyma]
    clock: Callable[[], datetime]
    current: Authorities
    rules: RotationRules = field(default_factory=RotationRules)
    adopt: Adopt = nothing_to_adopt
    events: EventRecorder | None = None
    _adopted: str = field(default="", init=False)

    @property
    def key(self) -> ObjectKey:
        """The key of the Secret."""
        return ObjectKey(self.store.namespace, self.store.name)

    async def reconcile(self, _: ObjectKey) -> Result:
        """Follow the Secret, and take the next step of a rotation where one is due. Raises KubeError."""
        stored = await self.store.ensure()
        await self._follow(stored.authorities)
        step = next_step(
            stored.authorities,
            self.rules,
            everybody_has_it=not self.laggards(),
            asked=stored.asked,
            now=self.clock(),
        )
        if step is not None:
            stored = await self._take(step, stored)
        return Result(requeue_after=self._look_again_after(stored.authorities))

    def laggards(self) -> list[str]:
        """Return the names of the Kymas whose cluster has a Watcher that does not have yet what is in force."""
        return [
            kyma.metadata.name
            for kyma in self.kymas.cache.list()
            if not kyma.metadata.being_deleted
            and WATCHER_RECORD in kyma.metadata.annotations
            and kyma.metadata.annotations.get(TRUST_RECORD) != self.current.fingerprint
        ]

    async def _take(self, step: Step, stored: StoredAuthorities) -> StoredAuthorities:
        try:
            after = await self.store.take(step, stored)
        except Conflict:  # another replica was quicker
            after = await self.store.ensure()
        else:
            log.info("authority rotation", step=str(step), in_force=after.authorities.fingerprint)
            self._tell(step, after)
        await self._follow(after.authorities)
        return after

    def _tell(self, step: Step, stored: StoredAuthorities) -> None:
        """Tell of a step; one that did not wait for every cluster is a warning that names some of them."""
        if self.events is None:
            return
        reason, note = NEWS[step]
        behind = self.laggards() if step in {Step.SWITCH, Step.DROP} else []
        if behind:
            named = ", ".join(behind[:MOST_NAMED])
            note = f"{note}; {len(behind)} clusters could not be waited for any longer: {named}"
        self.events.record(
            SECRETS, stored.secret, reason, note, type="Warning" if behind else "Normal", action="RotateAuthority"
        )

    def _look_again_after(self, authorities: Authorities) -> float:
        """Return in how many seconds there may be something to do: soon, in an hour, or when a rotation is due."""
        if authorities.rotating:
            return ROTATING_SECONDS
        due = describe(authorities.signing.certificate_pem).not_after - self.rules.renew_before
        return min(CALM_SECONDS, max(ROTATING_SECONDS, (due - self.clock()) / timedelta(seconds=1)))

    async def _follow(self, authorities: Authorities) -> None:
        """Put the authorities in force here; what could not adopt them is tried again with the next attempt."""
        self.current = authorities
        if self._adopted != authorities.fingerprint:
            await self.adopt(authorities)
            self._adopted = authorities.fingerprint
