"""The controller that renews the tokens of access Secrets before they expire, with the tokens themselves.

The key is the name of a Kyma. The old token is replaced only once a new one was issued, and only in the version of the
Secret that was read; until it expires nothing is lost, however often the renewal fails. Each failure is an Event of the
Kyma. That an expired or revoked token is refused shows in the condition `SKRReachable`, as for any other credentials.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from kube_runtime import (
    Change,
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
SERVICE_ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "ServiceAccount", "serviceaccounts", namespaced=True
)


def setup(manager: Manager, connections: Connections) -> Controller[str, None]:
    """Renew the tokens of access Secrets that have the annotation `renew-token`."""
    secrets = connections.secrets
    controller: Controller[str, None] = manager.controller(
        "skr-token",
        owner=str,
        exists=lambda _: True,
        retry=RETRY,
        retry_priority=Priority.RESYNC,
        not_retried=(SkrAccessError,),
    )

    def kymas_with_tokens() -> Iterable[str]:
        return (kyma for each in secrets.list() if is_renewed(each) for kyma in access_index(each))

    controller.starts_with(kymas_with_tokens)
    controller.watches(secrets, to=_kymas_of, when=lambda change: change.new is not None and is_renewed(change.new))
    controller.receives(ClusterReachable, to=lambda signal: (signal.kyma,), priority=Priority.RESYNC)
    renewal = _Renewal(manager, connections, manager.informer(KYMAS))
    controller.steps(
        read=renewal.read, plan=plan, apply=renewal.apply, finish=renewal.finish, outcomes=(TokenUnusable,)
    )
    return controller


@dataclass(frozen=True, slots=True)
class RenewToken(Step):
    """Have the SKR issue another token, and write it to the access Secret."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSnapshot(Snapshot):
    """The access Secret of a Kyma, its token or why it has none, and the token that replaced it in this reconcile."""

    now: datetime
    secret: Secret
    token: Token | TokenUnusable
    renewed: Token | None = None


def plan(seen: TokenSnapshot) -> RenewToken | End:
    """Return the next step: a token is renewed once it is due. One that the SKR should not have issued is no error."""
    token = seen.renewed or seen.token
    if isinstance(token, TokenUnusable):
        return End()
    if isinstance(seen.error, TokenUnusable):
        return End(requeue_after=RETRY.max_seconds)
    if seen.error is not None:
        return End(error=seen.error)
    if seen.renewed is None and seen.now >= token.due:
        return RenewToken(token)
    return End(requeue_after=(token.due - seen.now).total_seconds())


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


@dataclass(frozen=True, eq=False)
class _Renewal:
    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]

    async def read(self, request: Request[str, None]) -> TokenSnapshot | None:
        """Return the snapshot of a Kyma whose token is renewed. Raises SkrAccessError."""
        secret = self.connections.access_secret(request.key)
        if not is_renewed(secret):
            return None
        token: Token | TokenUnusable
        try:
            token = token_in(kubeconfig_in(secret))
        except TokenUnusable as error:
            token = error
        return TokenSnapshot(now=self.manager.clock.now(), secret=secret, token=token)

    async def apply(self, request: Request[str, None], seen: TokenSnapshot, step: RenewToken) -> TokenSnapshot:
        """Renew a token. Raises KubeError, SkrAccessError, TokenUnusable."""
        token, metadata = step.token, seen.secret.metadata
        skr = await request.shared("skr", lambda: self.connections.to(request.key))
        answer = await skr.create_subresource(SERVICE_ACCOUNTS, token.account, token.namespace, "token", token.request)
        renewed = issued_token(answer, token, seen.now)
        config = base64.b64encode(with_token(kubeconfig_in(seen.secret), renewed).encode()).decode()
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "data": {"config": config}}
        written = await self.manager.client.merge_patch(
            SECRETS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER
        )
        self.connections.secrets.wrote(written)
        log.info("token renewed", kyma=request.key, expires=renewed.expires.isoformat())
        return replace(seen, renewed=renewed)

    async def finish(self, request: Request[str, None], seen: TokenSnapshot, end: End) -> Result:
        """Record an Event of the Kyma about a token that was not renewed."""
        known, note = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, request.key)), why_not_renewed(request.key, seen)
        if known is not None and note is not None:
            self.manager.events.record(KYMAS, known, NOT_RENEWED, note, type="Warning", action="RenewToken")
        return Result(end.requeue_after)


def _kymas_of(change: Change[Secret]) -> Iterable[str]:
    return access_index(change.new) if change.new is not None else ()
