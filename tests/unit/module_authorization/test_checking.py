"""When it is believed that modules are not kept apart, and how soon that is checked again."""

from collections.abc import AsyncIterator

import pytest

from kube_runtime import Manager
from kube_simulation import Simulation
from lifecycle_manager.contract.signals import ModulesProtected
from lifecycle_manager.module_authorization.checking import (
    DENIED_SECONDS,
    INTERVAL_SECONDS,
    RETRY_SECONDS,
    Denied,
    ModuleAuthorizationCheck,
)
from tests.clocks import ManualClock
from tests.clusters import simulated_clusters


class Scripted(ModuleAuthorizationCheck):
    """What is found out is the test's: a reason, or that nothing may be asked."""

    found: str | Denied = ""

    async def _find_out(self) -> str:
        if isinstance(self.found, Denied):
            raise self.found
        return self.found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def check(simulation: Simulation, clock: ManualClock) -> AsyncIterator[Scripted]:
    async with simulated_clusters(simulation) as (kcp, _):
        yield Scripted(Manager(kcp, clock=clock), kcp, "leases")


def published(check: Scripted) -> list[ModulesProtected]:
    found: list[ModulesProtected] = []
    check._manager.on(ModulesProtected, found.append)  # noqa: SLF001
    return found


async def test_api_server_that_denies_everything_for_a_while_changes_nothing(
    check: Scripted, clock: ManualClock
) -> None:
    """As one that has just started does, until it has read the roles."""
    await check.check()
    check.found = Denied("system:serviceaccount:kcp-system:lifecycle-manager cannot list resource")
    for _ in range(3):
        await check.check()
        assert check.ready() is True
        clock.advance(DENIED_SECONDS / 4)
    check.found = ""
    await check.check()
    clock.advance(DENIED_SECONDS)
    check.found = Denied("again")
    await check.check()
    assert check.ready() is True


async def test_rights_that_stay_missing_are_reported(check: Scripted, clock: ManualClock) -> None:
    await check.check()
    check.found = Denied("cannot list resource")
    await check.check()
    clock.advance(DENIED_SECONDS)
    await check.check()
    assert check.ready() == "cannot list resource"


async def test_rights_that_are_missing_at_the_start_are_reported_at_once(check: Scripted) -> None:
    check.found = Denied("cannot list resource")
    await check.check()
    assert check.ready() == "cannot list resource"


async def test_policy_that_is_gone_is_reported_at_once_and_its_return_is_published(check: Scripted) -> None:
    await check.check()
    protected = published(check)
    check.found = "the binding is missing"
    await check.check()
    assert (check.ready(), protected) == ("the binding is missing", [])
    check.found = ""
    await check.check()
    assert (check.ready(), protected) == (True, [ModulesProtected()])


async def test_what_is_wrong_is_checked_again_soon_however_long_all_was_well(check: Scripted) -> None:
    await check.check()
    assert [check.pause() for _ in range(10)] == [INTERVAL_SECONDS] * 10
    for wrong in ("the binding is missing", Denied("cannot list resource")):
        check.found = wrong
        await check.check()
        assert check.pause() == RETRY_SECONDS
        assert check.pause() == 2 * RETRY_SECONDS
        check.found = ""
        await check.check()
        assert check.pause() == INTERVAL_SECONDS
