"""The writes of a module's ModuleConfigs, in KCP."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import assert_never

import msgspec
import structlog

from kube_runtime import Client, Clock, EventRecorder, Forbidden, Informer, NotFound
from kube_runtime.tracing import handed_on, part
from lifecycle_manager.contract.conditions import NAMESPACE_NOT_WRITABLE, namespace_problem, namespace_problems
from lifecycle_manager.contract.resources import FIELD_MANAGER, MODULE_CONFIGS, MODULE_POLICIES
from lifecycle_manager.contract.signals import ModuleConfigsWritten, Trace
from lifecycle_manager.contract.verdict import SYNCED
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager.module_config.rules import ApplyModuleConfig, DeleteModuleConfig, SetCondition, Write, labels_of
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.module_config.status import merged
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager_api import ModuleConfig, ObjectMeta, names

log = structlog.get_logger("module_config")

MODULE_ROLE = "lifecycle-manager-modules"
NO_NAMESPACE = "there is no such namespace"
NO_RIGHTS = "Lifecycle Manager has no rights there"


@dataclass(frozen=True, eq=False)
class ModuleConfigWrites:
    kcp: Client
    module_configs: Informer[ModuleConfig]
    policies: Policies
    events: EventRecorder
    latency: ChangeLatency
    clock: Clock
    publish: Callable[[ModuleConfigsWritten], int]

    async def carry_out(self, seen: ModuleConfigSnapshot, writes: Sequence[Write]) -> None:
        """Carry out the writes in their order. Raises KubeError at the first that fails.

        Where nothing can be written in the namespace, an Event of the ModulePolicy and the status of the Kyma say so.
        """
        with part("WriteToKcp") if writes else nullcontext():
            for step in writes:
                try:
                    await self._carry_out(seen, step)
                except (Forbidden, NotFound) as error:
                    self._report_namespace(seen, error)
                    raise
        self._report_problem(seen, "")

    async def _carry_out(self, seen: ModuleConfigSnapshot, step: Write) -> None:
        match step:
            case ApplyModuleConfig():
                trace = seen.traces.get(step.source, Trace())
                await self._write(seen, step, trace)
                self.latency.module_config_written(trace.observed_at)
            case DeleteModuleConfig(name, by_users):
                await self._delete(seen, name, by_users=by_users)
            case SetCondition():
                await self._set_condition(seen, step)
            case _:
                assert_never(step)

    def _report_namespace(self, seen: ModuleConfigSnapshot, error: Forbidden | NotFound) -> None:
        policy = self.policies.policy_of(seen.module)
        if policy is None:
            return  # it has the namespace of the Lifecycle Manager itself
        why = why_refused(error)
        problem = namespace_problem(seen.namespace, why)
        self._report_problem(seen, problem)
        advice = (
            f"; create the namespace, and in it a RoleBinding of ClusterRole {MODULE_ROLE} to the "
            "ServiceAccount of Lifecycle Manager, as the chart of the Module Manager does"
        )
        note = problem + (advice if why in {NO_NAMESPACE, NO_RIGHTS} else "")
        self.events.record(MODULE_POLICIES, policy, NAMESPACE_NOT_WRITABLE, note, type="Warning", action="Write")

    def _report_problem(self, seen: ModuleConfigSnapshot, problem: str) -> None:
        """Have the status of the Kyma say why ModuleConfigs of the module can't be written, or no longer do so."""
        if seen.item is not None and namespace_problems(seen.item).get(seen.module, "") != problem:
            self.publish(ModuleConfigsWritten(seen.kyma, seen.module, problem))

    async def _write(self, seen: ModuleConfigSnapshot, step: ApplyModuleConfig, trace: Trace) -> None:
        origin = {names.TRACEPARENT: handed_on(trace.traceparent), names.OBSERVED_AT: trace.observed_at}
        metadata = {
            "labels": labels_of(seen.kyma, seen.module),
            "annotations": {key: value for key, value in origin.items() if value},
        }
        reference = msgspec.to_builtins(step.reference)
        spec = {"kyma": seen.kyma, "module": seen.module, "resource": step.text, "resourceRef": reference}
        document = {"metadata": {"name": step.name, "namespace": seen.namespace} | metadata, "spec": spec}
        written = await self.kcp.apply(MODULE_CONFIGS, step.name, document, seen.namespace, field_manager=FIELD_MANAGER)
        self.module_configs.wrote(written)
        log.info(
            "module config written",
            kyma=seen.kyma,
            module=seen.module,
            name=step.name,
            source=str(step.source),
            resource_version=step.reference.resource_version,
            event_id=trace.event_id,
            traceparent=trace.traceparent,
            observed_at=trace.observed_at,
        )

    async def _delete(self, seen: ModuleConfigSnapshot, name: str, *, by_users: bool) -> None:
        mark = {"metadata": {"annotations": {names.REMOVED_BY_USERS: "true"}}}
        try:
            if by_users:
                await self.kcp.merge_patch(MODULE_CONFIGS, name, mark, seen.namespace, field_manager=FIELD_MANAGER)
            await self.kcp.delete(MODULE_CONFIGS, name, seen.namespace, propagation="Foreground")
        except NotFound:
            return
        log.info("module config deleted", kyma=seen.kyma, module=seen.module, name=name)

    async def _set_condition(self, seen: ModuleConfigSnapshot, step: SetCondition) -> None:
        config = next((each for each in seen.existing if each.metadata.name == step.name), None)
        condition = merged(config, step.condition, self.clock.now())
        with suppress(NotFound):  # deleted meanwhile
            metadata = ObjectMeta(name=step.name, namespace=seen.namespace)
            # Each type has a field manager of its own: server-side apply removes what its manager names no more.
            manager = FIELD_MANAGER if step.condition.type == SYNCED else f"{FIELD_MANAGER}-quota"
            status = {"conditions": [condition]}
            written = await write_status(self.kcp, MODULE_CONFIGS, metadata, status, field_manager=manager)
            self.module_configs.wrote(written)


def why_refused(error: Forbidden | NotFound) -> str:
    """Return why nothing can be written in a namespace. Of a quota the API server says so in the message alone."""
    if isinstance(error, NotFound):
        return NO_NAMESPACE
    if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
        return "it is being deleted"
    if "exceeded quota" in error.message:
        return "a ResourceQuota there is used up"
    return "a webhook or policy denies it" if error.is_denied else NO_RIGHTS
