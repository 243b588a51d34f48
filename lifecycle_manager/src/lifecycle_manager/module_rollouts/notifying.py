"""Sends the state of rollouts to a webhook. Each ModuleRollout is reconciled when its phase changes.

The phase that was sent last is in the status: a restart sends what is missing, and a crash between the answer and that
record sends one notification twice, with the same id. What fails is retried with growing pauses, and then the newest
state is sent, unless it is older than MAX_AGE.
"""

from collections.abc import Iterable
from datetime import timedelta

import aiohttp
import structlog

from kube_runtime import Causes, Change, Controller, Manager, ObjectKey, Result
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS, SECRETS
from lifecycle_manager.module_rollouts.notification import (
    NotificationFailed,
    changed_at,
    headers_of,
    notification_of,
    receiver_in,
)
from lifecycle_manager.module_rollouts.settings import NotificationSettings
from lifecycle_manager_api import ModuleRollout, names

FIELD_MANAGER = "lifecycle-manager-notifications"
TIMEOUT_SECONDS = 10.0
MAX_AGE = timedelta(days=1)
log = structlog.get_logger("module_rollouts")


def setup_notifications(manager: Manager, settings: NotificationSettings) -> Controller[ObjectKey, None] | None:
    """Add the controller, where a Secret is named."""
    if not settings.secret:
        return None
    rollouts = manager.informer(MODULE_ROLLOUTS)
    secrets = manager.informer(SECRETS, field_selector=f"metadata.name={settings.secret}")
    controller: Controller[ObjectKey, None] = manager.controller(
        "rollout-notification",
        owner=lambda key: f"Notification {key.name}",
        concurrency=2,
    )

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        rollout = rollouts.get(key)
        if rollout is None or is_notified(rollout, manager):
            return Result()
        secret = secrets.get(ObjectKey(names.KCP_NAMESPACE, settings.secret))
        receiver = receiver_in(secret, settings.secret, allows_http=settings.allows_http)
        notification = notification_of(rollout)
        headers = headers_of(notification, receiver.key, manager.clock.now())
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as session,
                session.post(receiver.url, data=notification.body, headers=headers, allow_redirects=False) as response,
            ):
                code = response.status  # whatever the body says, it is not read
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotificationFailed(f"{receiver.host}: {type(error).__name__}") from None
        if not 200 <= code < 300:
            raise NotificationFailed(f"{receiver.host} answered {code}")
        patch = {"status": {"notified": notification.id}}
        written = await manager.client.merge_patch(
            MODULE_ROLLOUTS, key.name, patch, key.namespace, subresource="status", field_manager=FIELD_MANAGER
        )
        rollouts.wrote(written)
        log.info("notified", rollout=key.name, phase=rollout.status.phase)
        return Result()

    def all_rollouts(_: object) -> Iterable[ObjectKey]:
        return rollouts.cache.keys()

    controller.watches(rollouts, when=phase_changed)
    controller.watches(secrets, to=all_rollouts)
    controller.reconciles(reconcile, foreseen=(NotificationFailed,))
    return controller


def is_notified(rollout: ModuleRollout, manager: Manager) -> bool:
    """Tell whether the state of a rollout was sent, or is none to send."""
    at = changed_at(rollout)
    if at is None or manager.clock.now() - at > MAX_AGE:
        return True
    return rollout.status.notified == notification_of(rollout).id


def phase_changed(change: Change[ModuleRollout]) -> bool:
    """Tell whether a rollout has another phase, or is seen for the first time."""
    old, new = change.old, change.new
    return new is not None and (old is None or notification_of(old).id != notification_of(new).id)
