"""A step that fails over an answer does not keep it while the deletion of a Kyma goes on."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_runtime import Causes, ResponseInvalid
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.kyma.deletion.apply import KymaDeletion
from lifecycle_manager.kyma.snapshot import KymaSnapshot, KymaState
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import names
from tests import builders
from tests.unit.kube_runtime.test_kept_failures import Server
from tests.unit.kyma.planning import snapshot


@dataclass
class _Refusing:
    """Stands for what a deletion reads and writes by; the Kyma CR in the SKR can't be read."""

    seen: KymaSnapshot
    server: Server
    kept: list[int] = field(default_factory=list)

    def read(self, *_: object) -> KymaSnapshot:
        return self.seen

    async def read_skr(self, *_: object, **__: object) -> None:
        await self.server.read()

    @asynccontextmanager
    async def to(self, _: str) -> AsyncIterator[None]:
        yield

    async def write_status(self, *_: object) -> None:
        self.kept.append(self.server.kept)


async def test_answer_over_which_a_step_fails_is_freed_at_once() -> None:
    kyma = builders.kyma("demo", deletionTimestamp="2026-11-01T12:00:00Z", finalizers=[names.KYMA_FINALIZER])
    unread: Any = None
    world: Any = _Refusing(snapshot(kyma, unread, Offer.of([], [])), Server(ResponseInvalid))
    gc.disable()
    try:
        with pytest.raises(ResponseInvalid):
            await KymaDeletion(world, world, world).reconcile(KYMAS.key_of(kyma), Causes(), KymaState())
    finally:
        gc.enable()
    assert (len(world.server.answers), world.kept) == (1, [0])
