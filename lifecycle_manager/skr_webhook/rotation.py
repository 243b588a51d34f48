"""Replaces the authority of the control plane, one step at a time, and has this process follow what is in force.

Every replica runs this. A step is decided on one version of the Secret and taken by the replica that is first; the
others read what came of it. What a cluster has is noted on its Kyma, once it was applied there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from certs import Authorities, RotationRules, Step, next_step
from kube_runtime import Conflict, Informer, ObjectKey, Result
from lifecycle_manager.skr_webhook.authority import AuthorityStore, StoredAuthorities
from lifecycle_manager.skr_webhook.records import TRUST_RECORD, WATCHER_RECORD
from lifecycle_manager_api import Kyma

CALM_SECONDS = 3600.0
ROTATING_SECONDS = 2.0

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
        return Result(requeue_after=ROTATING_SECONDS if stored.authorities.rotating else CALM_SECONDS)

    def laggards(self) -> list[str]:
        """Return the names of the Kymas whose cluster has a Watcher that does not have yet what is in force."""
        return [
            kyma.metadata.name
            for kyma in self.kymas.cache.list()
            if kyma.metadata.deletion_timestamp is None
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
        await self._follow(after.authorities)
        return after

    async def _follow(self, authorities: Authorities) -> None:
        """Put the authorities in force here; what could not adopt them is tried again with the next attempt."""
        self.current = authorities
        if self._adopted != authorities.fingerprint:
            await self.adopt(authorities)
            self._adopted = authorities.fingerprint
