"""Tokens of access Secrets are renewed in time; where that fails, the old one stays and an Event says why."""

import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from kube_runtime import ClusterUnreachable, Conflict, Forbidden, Unauthorized
from kube_simulation import Answer, ApiRequest, Drop, Freeze, Refuse, Refused, Rule
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.skr.token import Token, token_in
from lifecycle_manager.skr.token_renewal import CHECK_SECONDS, NOT_RENEWED, RETRY
from lifecycle_manager_api import names
from tests.builders import NOW
from tests.unit.skr.tokens import kubeconfig, token
from tests.world import KCP, World

SECRET = "kubeconfig-demo"
HOUR = timedelta(hours=1)


async def join(world: World, text: str, *, renewed: bool = True, name: str = "demo") -> None:
    """Give a Kyma an access Secret with a token."""
    await world.register(name)
    server = world.cluster(name).kubeconfig["clusters"][0]["cluster"]["server"]
    config = base64.b64encode(kubeconfig(text, server).encode()).decode()
    marks = {names.RENEW_TOKEN: "true"} if renewed else {}
    patch = {"metadata": {"annotations": marks}, "data": {"config": config}}
    await world.kcp.merge_patch(SECRETS, f"kubeconfig-{name}", patch, KCP, field_manager="klm")


async def held(world: World) -> Token:
    secret = await world.kcp.get(SECRETS, SECRET, KCP)
    return token_in(base64.b64decode(secret.data["config"]).decode())


def refusing(code: int) -> Refuse:
    return Refuse(refused=Refused(code, {401: "Unauthorized", 403: "Forbidden"}[code], "not today"))


async def renew(world: World, name: str = "demo") -> float | None:
    return (await world.turn("skr-token", name)).requeue_after


async def test_token_is_renewed_when_two_thirds_of_its_life_have_passed(world: World) -> None:
    now = world.clock.time = datetime.now(UTC)  # as the clock of the cluster
    await join(world, token(now - HOUR * 0.65))
    before = await held(world)
    assert await renew(world) == pytest.approx(60, abs=2)
    assert await held(world) == before
    world.clock.advance(62)
    await renew(world)
    after = await held(world)
    assert after.text != before.text
    assert after.lifetime == before.lifetime
    assert world.events == []


async def test_clock_is_read_again_as_it_may_have_been_wrong_at_the_start(world: World) -> None:
    await join(world, token(NOW, lasts=720 * HOUR))
    assert await renew(world) == CHECK_SECONDS


async def test_secret_of_somebody_else_is_never_written(world: World) -> None:
    await join(world, token(NOW - HOUR), renewed=False)
    assert await renew(world) is None
    assert world.writes_to("demo") == []


async def test_renewal_that_fails_keeps_the_token_and_is_reported(world: World) -> None:
    await join(world, token(NOW - HOUR + timedelta(minutes=1)))
    before = await held(world)
    for rule, error in ((refusing(403), Forbidden), (refusing(401), Unauthorized), (Drop(), ClusterUnreachable)):
        with world.cluster("demo").ruled_by(rule), pytest.raises(error):
            await renew(world)
    await world.connections.probe("demo")
    world.clock.advance(120)
    with world.cluster("demo").ruled_by(refusing(401)), pytest.raises(Unauthorized):
        await renew(world)
    assert await held(world) == before
    reasons, notes = zip(*world.events, strict=True)
    assert set(reasons) == {NOT_RENEWED}
    assert f"expires at {before.expires:%Y-%m-%d %H:%M:%S} UTC" in notes[0]
    assert "lack a right" in notes[0]
    assert "can't be reached" in notes[2]
    assert "has expired" in notes[3]
    assert "klm join demo --kubeconfig FILE" in notes[3]


class IssuesNothing(Rule):
    """Answers a TokenRequest with something else."""

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        return Answer(201, b'{"status": {"token": "rm -rf"}}') if request.subresource == "token" else answer


async def test_token_that_a_hostile_cluster_issues_is_not_stored(world: World) -> None:
    await join(world, token(NOW - HOUR))
    before = await held(world)
    with world.cluster("demo").ruled_by(IssuesNothing()):
        assert await renew(world) == RETRY.max_seconds
    assert await held(world) == before
    assert "what the cluster issued is refused" in world.events[0][1]


async def test_secret_that_somebody_else_wrote_meanwhile_is_not_overwritten(world: World) -> None:
    now = world.clock.time = datetime.now(UTC)
    await join(world, token(now - HOUR))
    await world.sync_caches()
    world.unseen.add("secrets")
    kcp = world.cluster("kcp")
    with kcp.ruled_by(Freeze(kcp.version, lambda request: request.verb == "watch")):
        await world.kcp.merge_patch(SECRETS, SECRET, {"data": {"other": ""}}, KCP, field_manager="broker")
        before = await held(world)
        with pytest.raises(Conflict):
            await renew(world)
    assert await held(world) == before


async def test_secret_without_a_token_is_reported_once_for_each_version(world: World) -> None:
    await join(world, "a-static-token")
    assert await renew(world) is None
    assert [reason for reason, _ in world.events] == [NOT_RENEWED]
    await world.kcp.delete(SECRETS, SECRET, KCP)
    with pytest.raises(AccessSecretMissing):
        await renew(world)
