"""Checks at the start and periodically that the policy is in force, and reports it: readiness, a metric, a log line.

A watch of the policy shows that it is the shipped one, but not that the API server applies it. So a dry run tries what
it has to refuse: a SyncResource in the namespace of the Leases, in which Lifecycle Manager may create one and may not
`manage` modules. Nothing is stored. It is tried after each change, and periodically, as nothing reports that the API
server or the rights of Lifecycle Manager have changed.

An API server that has just started denies everything until it has read the roles. So where Lifecycle Manager may not
ask, what was seen last counts for a while.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from prometheus_client import Gauge

from kube_runtime import (
    Backoff,
    Client,
    Forbidden,
    KubeError,
    Manager,
    NotFound,
    NotServed,
    ObjectKey,
    Resource,
    parse_objects,
)
from lifecycle_manager.contract.resources import FIELD_MANAGER, SYNC_RESOURCES
from lifecycle_manager.contract.signals import ModulesProtected
from lifecycle_manager.module_authorization.plan import difference, why_not_applied
from lifecycle_manager.options.modules import ModuleAuthorizationSettings
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION, module_authorization_as_yaml

POLICIES: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
)
BINDINGS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)

NAMED = ObjectKey("", MODULE_AUTHORIZATION)
PROBE = {
    "apiVersion": SYNC_RESOURCES.api_version,
    "kind": SYNC_RESOURCES.kind,
    "metadata": {"name": "module-authorization-probe"},
    "spec": {"kyma": "probe", "module": "probe", "resource": ""},
}
INTERVAL_SECONDS = 60.0
RETRY_SECONDS = 2.0
"""The first pause while it is not in force: an API server takes a moment to apply what was just written."""
DENIED_SECONDS = 30.0
"""How long what was seen last counts where Lifecycle Manager may not ask."""
log = structlog.get_logger("module_authorization")


class Denied(Exception):
    """Lifecycle Manager lacks the rights to find out."""


def setup(manager: Manager, kcp: Client, settings: ModuleAuthorizationSettings) -> Callable[[], str | None]:
    """Check while the manager runs. `kcp` is a client that is not fenced, since every replica checks.

    Return a function that says why modules are not kept apart: empty where they are or need not be, None before that
    is known.
    """
    check = ModuleAuthorizationCheck(manager, kcp, settings.namespace)
    manager.runs(check.run, name="module authorization")
    if not settings.is_optional:
        manager.check("module authorization", check.ready)
    return lambda: "" if settings.is_optional else check.why_not


class ModuleAuthorizationCheck:
    """Whether the policy is in force, as last seen."""

    def __init__(self, manager: Manager, kcp: Client, namespace: str) -> None:
        self._kcp = kcp
        self._namespace = namespace
        shipped = {each.kind: dict(each.document) for each in parse_objects(module_authorization_as_yaml())}
        self._policy, self._binding = shipped[POLICIES.kind], shipped[BINDINGS.kind]
        self._policies, self._bindings = (
            manager.informer(each, field_selector=f"metadata.name={MODULE_AUTHORIZATION}", required=False)
            for each in (POLICIES, BINDINGS)
        )
        self._changed = asyncio.Event()
        for informer in (self._policies, self._bindings):
            informer.on_change(lambda _: self._changed.set())
        self.why_not: str | None = None
        self._manager = manager
        self._denied_since: float | None = None
        self._pauses = Backoff(base=RETRY_SECONDS, max=INTERVAL_SECONDS, jitter=0.0)
        self._in_force = Gauge(
            "lifecycle_mgr_module_policy_in_force",
            "Whether the admission policy that keeps modules apart is in force in KCP.",
            registry=manager.registry,
        )

    def ready(self) -> bool | str:
        """Return true if it is in force, else why not."""
        return "not checked yet" if self.why_not is None else self.why_not or True

    async def run(self) -> None:
        """Check until cancelled. While KCP can't be asked, what was seen last counts."""
        while True:
            self._changed.clear()
            try:
                await self.check()
            except (KubeError, TimeoutError) as error:
                log.warning("module authorization could not be checked", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pause()):
                    await self._changed.wait()
                self._pauses.reset()

    def pause(self) -> float:
        """Return in how many seconds to check again if nothing changes before: soon where something is wrong."""
        if self.why_not != "" or self._denied_since is not None:
            return self._pauses.next()
        self._pauses.reset()
        return INTERVAL_SECONDS

    async def check(self) -> None:
        """Check once. Raises KubeError, TimeoutError."""
        now = self._manager.clock.monotonic()
        try:
            why_not, self._denied_since = await self._find_out(), None
        except Denied as denied:
            self._denied_since = now if self._denied_since is None else self._denied_since
            if self.why_not == "" and now - self._denied_since < DENIED_SECONDS:
                log.info("module authorization can't be checked for now", reason=str(denied))
                return
            why_not = str(denied)
        if why_not == self.why_not:
            return
        self.why_not = why_not
        self._in_force.set(not why_not)
        if why_not:
            log.warning("module authorization is not in force: every module may write for every other", reason=why_not)
        else:
            log.info("module authorization is in force")
            self._manager.publish(ModulesProtected())

    async def _find_out(self) -> str:
        """Return why it is not in force; empty if it is. Raises Denied, KubeError, TimeoutError."""
        for informer in (self._policies, self._bindings):
            if isinstance(informer.last_error, Forbidden):
                raise Denied(str(informer.last_error))
            if isinstance(informer.last_error, NotServed):
                return str(informer.last_error)
            await informer.wait_synced(RETRY_SECONDS)
        policy, binding = self._policies.get(NAMED), self._bindings.get(NAMED)
        return difference(policy, self._policy) or difference(binding, self._binding) or await self._probe()

    async def _probe(self) -> str:
        """Return why the policy is not applied, empty if it is. Raises Denied, KubeError."""
        refusal: KubeError | None = None
        try:
            await self._kcp.create(SYNC_RESOURCES, PROBE, self._namespace, field_manager=FIELD_MANAGER, dry_run=True)
        except (Forbidden, NotFound, NotServed) as error:
            refusal = error
        why_not = why_not_applied(self._namespace, str(refusal or ""))
        if why_not and isinstance(refusal, Forbidden):
            raise Denied(why_not)
        return why_not
