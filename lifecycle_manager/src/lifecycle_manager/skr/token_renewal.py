"""The controller that renews the tokens of access Secrets before they expire, with the tokens themselves.

The key is the name of a Kyma. The old token is replaced only once a new one was issued, and only in the version of the
Secret that was read; until it expires nothing is lost, however often the renewal fails. Each failure is an Event of the
Kyma. That an expired or revoked token is refused shows in the condition `SKRReachable`, as for any other credentials.

A token of a Secret of type `kubernetes.io/service-account-token` would need no renewal: it never expires. What is
stolen of one opens the cluster until somebody deletes it.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import structlog

from kube_runtime import (
    Causes,
    Change,
    Controller,
    Informer,
    KubeError,
    Manager,
    ObjectKey,
    Priority,
    Result,
    RetryPolicy,
)
from lifecycle_manager.contract.resources import FIELD_MANAGER, KYMAS, SECRETS, SERVICE_ACCOUNTS, Secret
from lifecycle_manager.contract.signals import ClusterReachable
from lifecycle_manager.skr.access import SkrAccessError, access_index, kubeconfig_in
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import failure_of
from lifecycle_manager.skr.token import Token, TokenUnusable, is_renewed, issued_token, token_in, with_token
from lifecycle_manager_api import Kyma, names

log = structlog.get_logger("skr")

RETRY = RetryPolicy(base_seconds=1.0, max_seconds=300.0)
NOT_RENEWED = "TokenNotRenewed"
CHECK_SECONDS = 3600.0
"""How soon the clock is read again: it may be set meanwhile."""


def setup(manager: Manager, connections: Connections) -> Controller[str, None]:
    """Renew the tokens of access Secrets that have the annotation `renew-token`."""
    secrets = connections.secrets
    controller: Controller[str, None] = manager.controller(
        "skr-token",
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
    controller.reconciles(_Renewal(manager, connections, manager.informer(KYMAS)).reconcile)
    return controller


def why_not_renewed(kyma: str, token: Token, error: Exception, now: datetime) -> str:
    """Return the note of an Event about a token that was not renewed."""
    is_refused, has_expired = isinstance(error, TokenUnusable), token.expires <= now
    why = f"what the cluster issued is refused: {error}" if is_refused else failure_of(error).message
    until = f"{'has expired' if has_expired else 'expires'} at {token.expires:%Y-%m-%d %H:%M:%S} UTC"
    advice = f"; klm join {kyma} --kubeconfig FILE gives access again" if has_expired else ""
    return f"the token for the cluster {until} and could not be renewed: {why}{advice}"


@dataclass(frozen=True, eq=False)
class _Renewal:
    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]

    async def reconcile(self, kyma: str, _causes: Causes, _state: None) -> Result:
        """Renew the token of a Kyma once it is due. Raises KubeError, SkrAccessError."""
        secret, now = self.connections.access_secret(kyma), self.manager.clock.now()
        if not is_renewed(secret):
            return Result()
        try:
            token = token_in(kubeconfig_in(secret))
        except TokenUnusable as error:
            self._report(kyma, f"the access Secret {secret.metadata.name} has no token to renew: {error}")
            return Result()
        if token.due > now:
            return _when_due(token, now)
        try:
            renewed = await self._renew(kyma, secret, token, now)
        except (KubeError, SkrAccessError, TokenUnusable) as error:
            self._report(kyma, why_not_renewed(kyma, token, error, now))
            if isinstance(error, TokenUnusable):  # one that the cluster should not have issued
                return Result(RETRY.max_seconds)
            raise
        return _when_due(renewed, now)

    async def _renew(self, kyma: str, secret: Secret, token: Token, now: datetime) -> Token:
        metadata, wanted = secret.metadata, token.request
        async with self.connections.to(kyma) as skr:
            answer = await skr.create_subresource(SERVICE_ACCOUNTS, token.account, token.namespace, "token", wanted)
        renewed = issued_token(answer, token, now)
        config = base64.b64encode(with_token(kubeconfig_in(secret), renewed).encode()).decode()
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "data": {"config": config}}
        written = await self.manager.client.merge_patch(
            SECRETS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER
        )
        self.connections.secrets.wrote(written)
        log.info("token renewed", kyma=kyma, expires=renewed.expires.isoformat())
        return renewed

    def _report(self, kyma: str, note: str) -> None:
        """Record an Event of the Kyma about a token that was not renewed."""
        known = self.kymas.get(ObjectKey(names.KCP_NAMESPACE, kyma))
        if known is not None:
            self.manager.events.record(KYMAS, known, NOT_RENEWED, note, type="Warning", action="RenewToken")


def _when_due(token: Token, now: datetime) -> Result:
    return Result(min((token.due - now).total_seconds(), CHECK_SECONDS))


def _kymas_of(change: Change[Secret]) -> Iterable[str]:
    return access_index(change.new) if change.new is not None else ()
