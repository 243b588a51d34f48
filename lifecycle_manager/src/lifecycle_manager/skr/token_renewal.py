"""The controller that renews the tokens of access Secrets before they expire, with the tokens themselves.

The key is the name of a Kyma. The old token is replaced only once a new one was issued, and only in the version of the
Secret that was read; until it expires nothing is lost, however often the renewal fails. Each failure is an Event of the
Kyma. That an expired or revoked token is refused shows in the condition `SKRReachable`, as for any other credentials.

How old a token is counts by the clock of the machine and by the time that has passed, which no setting of the clock
changes; that of a token which this process has renewed from then on. Limit: `RenewalPace`, so that a clock that jumps
forward, or a long outage, does not have the clients of the whole fleet replaced at once.
"""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

import structlog

from kube_runtime import (
    Change,
    Clock,
    Controller,
    End,
    Informer,
    Manager,
    ObjectKey,
    Priority,
    Request,
    Resource,
    Result,
    RetryPolicy,
    Snapshot,
    Step,
)
from lifecycle_manager.contract.resources import FIELD_MANAGER, KYMAS, SECRETS, Secret
from lifecycle_manager.contract.signals import ClusterReachable
from lifecycle_manager.skr.access import SkrAccessError, access_index, kubeconfig_in
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager.skr.token import Token, TokenUnusable, is_renewed, issued_token, token_in, with_token
from lifecycle_manager_api import Kyma, names

log = structlog.get_logger("skr")

RETRY = RetryPolicy(base_seconds=1.0, max_seconds=300.0)
NOT_RENEWED = "TokenNotRenewed"
BURST, PER_SECOND = 10, 5.0
"""How many tokens are renewed at once, and in each second after that."""
CHECK_SECONDS = 3600.0
"""How soon the clock is read again: it may be set meanwhile."""
SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)


@dataclass(eq=False, slots=True)
class RenewalState:
    """What this process remembers of the token of a Kyma.

    - `turn`: the monotonic time at which it may be renewed, once that is due
    - `issued`: the text of the one that was issued to this process, and when that was: by the clock, and monotonic
    """

    turn: float | None = None
    issued: tuple[str, datetime, float] | None = None

    def age(self, token: Token, now: datetime, steady: datetime, seconds: float) -> timedelta:
        """Return how old a token is: by the clock or by the time that passed, whichever is more."""
        if self.issued is None or self.issued[0] != token.text:
            return max(now, steady) - token.issued
        return max(now - self.issued[1], timedelta(seconds=seconds - self.issued[2]))


def setup(manager: Manager, connections: Connections) -> Controller[str, RenewalState]:
    """Renew the tokens of access Secrets that have the annotation `renew-token`."""
    secrets = connections.secrets
    controller: Controller[str, RenewalState] = manager.controller(
        "skr-token",
        state=RenewalState,
        owner=str,
        exists=connections.have_access,
        retry=RETRY,
        retry_priority=Priority.RESYNC,
        not_retried=(SkrAccessError,),
    )

    def kymas_with_tokens() -> Iterable[str]:
        return (kyma for each in secrets.list() if is_renewed(each) for kyma in access_index(each))

    controller.starts_with(kymas_with_tokens)
    controller.watches(secrets, to=_kymas_of, when=lambda change: change.new is not None and is_renewed(change.new))
    controller.receives(ClusterReachable, to=lambda signal: (signal.kyma,), priority=Priority.RESYNC)
    renewal = _Renewal(manager, connections, manager.informer(KYMAS), steady_time(manager.clock))
    controller.steps(
        read=renewal.read, plan=plan, apply=renewal.apply, finish=renewal.finish, outcomes=(TokenUnusable,)
    )
    return controller


@dataclass(frozen=True, slots=True)
class RenewToken(Step):
    """Have the SKR issue another token, and write it to the access Secret."""

    token: Token


@dataclass(frozen=True, slots=True)
class TakeTurn(Step):
    """Take the next place in the order in which tokens are renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSnapshot(Snapshot):
    """The access Secret of a Kyma, its token or why it has none, and the token that replaced it in this reconcile.

    - `now`: by the clock; `steady`: by the clock at the start of the process, and the time since
    - `seconds`: the monotonic time; `turn`: the one at which this token may be renewed
    - `age`: how old the token is, whatever the clock was set to since it was issued
    """

    now: datetime
    steady: datetime
    seconds: float
    secret: Secret
    token: Token | TokenUnusable
    age: timedelta = timedelta(0)
    turn: float | None = None
    renewed: Token | None = None


def plan(seen: TokenSnapshot) -> RenewToken | TakeTurn | End:
    """Return the next step: a token is renewed once it is due. One that the SKR should not have issued is no error."""
    token = seen.renewed or seen.token
    if isinstance(token, TokenUnusable):
        return End()
    if isinstance(seen.error, TokenUnusable):
        return End(requeue_after=RETRY.max_seconds)
    if seen.error is not None:
        return End(error=seen.error)
    wait = (token.due - token.issued - seen.age).total_seconds()
    if seen.renewed is not None or wait > 0:
        return End(requeue_after=min(wait, CHECK_SECONDS))
    if seen.turn is None:
        return TakeTurn()
    return RenewToken(token) if seen.turn <= seen.seconds else End(requeue_after=seen.turn - seen.seconds)


def why_not_renewed(kyma: str, seen: TokenSnapshot) -> str | None:
    """Return the note of an Event about a token that can't be renewed, or was not."""
    token, error = seen.token, seen.error
    if isinstance(token, TokenUnusable):
        return f"the access Secret {seen.secret.metadata.name} has no token to renew: {token}"
    if error is None:
        return None
    is_refused, has_expired = isinstance(error, TokenUnusable), token.expires <= seen.now
    why = f"what the cluster issued is refused: {error}" if is_refused else failure_of(error).message
    until = f"{'has expired' if has_expired else 'expires'} at {token.expires:%Y-%m-%d %H:%M:%S} UTC"
    advice = f"; klm join {kyma} --kubeconfig FILE gives access again" if has_expired else ""
    return f"the token for the cluster {until} and could not be renewed: {why}{advice}"


@dataclass(eq=False)
class RenewalPace:
    """The order in which tokens are renewed: BURST at once, and PER_SECOND after that."""

    _next: float = float("-inf")

    def take(self, seconds: float) -> float:
        """Return the monotonic time of the next turn; `seconds` is that of now."""
        turn = max(self._next, seconds - (BURST - 0.5) / PER_SECOND)
        self._next = turn + 1 / PER_SECOND
        return max(turn, seconds)


@dataclass(frozen=True, eq=False)
class _Renewal:
    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]
    steady: Callable[[], datetime]
    pace: RenewalPace = field(default_factory=RenewalPace)

    async def read(self, request: Request[str, RenewalState]) -> TokenSnapshot | None:
        """Return the snapshot of a Kyma whose token is renewed. Raises SkrAccessError."""
        secret = self.connections.access_secret(request.key)
        if not is_renewed(secret):
            return None
        token: Token | TokenUnusable
        try:
            token = token_in(kubeconfig_in(secret))
        except TokenUnusable as error:
            token = error
        now, steady, seconds = self.manager.clock.now(), self.steady(), self.manager.clock.monotonic()
        return TokenSnapshot(
            now=now,
            steady=steady,
            seconds=seconds,
            secret=secret,
            token=token,
            age=request.state.age(token, now, steady, seconds) if isinstance(token, Token) else timedelta(0),
            turn=request.state.turn,
        )

    async def apply(
        self, request: Request[str, RenewalState], seen: TokenSnapshot, step: RenewToken | TakeTurn
    ) -> TokenSnapshot:
        """Renew a token. Raises KubeError, SkrAccessError, TokenUnusable."""
        match step:
            case TakeTurn():
                request.state.turn = self.pace.take(seen.seconds)
                return replace(seen, turn=request.state.turn)
            case RenewToken(token):
                request.state.turn = None
                return await self._renew(request, seen, token)
            case _:
                assert_never(step)

    async def _renew(self, request: Request[str, RenewalState], seen: TokenSnapshot, token: Token) -> TokenSnapshot:
        metadata = seen.secret.metadata
        skr = await request.shared("skr", lambda: self.connections.to(request.key))
        answer = await skr.create_subresource(SERVICE_ACCOUNTS, token.account, token.namespace, "token", token.request)
        renewed = issued_token(answer, token, (seen.now, seen.steady))
        config = base64.b64encode(with_token(kubeconfig_in(seen.secret), renewed).encode()).decode()
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "data": {"config": config}}
        written = await self.manager.client.merge_patch(
            SECRETS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER
        )
        self.connections.secrets.wrote(written)
        log.info("token renewed", kyma=request.key, expires=renewed.expires.isoformat())
        request.state.issued = (renewed.text, seen.now, seen.seconds)
        return replace(seen, renewed=renewed, age=timedelta(0))

    async def finish(self, request: Request[str, RenewalState], seen: TokenSnapshot, end: End) -> Result:
        """Record an Event of the Kyma about a token that was not renewed."""
        known, note = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, request.key)), why_not_renewed(request.key, seen)
        if known is not None and note is not None:
            self.manager.events.record(KYMAS, known, NOT_RENEWED, note, type="Warning", action="RenewToken")
        return Result(end.requeue_after)


def steady_time(clock: Clock) -> Callable[[], datetime]:
    """Return a function that returns the time by the clock as it is now, whatever that is set to later."""
    started, seconds = clock.now(), clock.monotonic()
    return lambda: started + timedelta(seconds=clock.monotonic() - seconds)


def _kymas_of(change: Change[Secret]) -> Iterable[str]:
    return access_index(change.new) if change.new is not None else ()
