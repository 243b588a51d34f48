"""An operator in the SKR and a Module Manager for one Module CR, with telemetry's real CRDs: both have their say.

The test plays telemetry's operator: it writes the status of the Module CR as a whole, is Warning while a condition is
False, and keeps the Module CR while a pipeline exists. `tests/nodes` has the real one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kube_runtime import Conflict, NotFound, NotServed
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.telemetry_manager import PIPELINE
from tests.integration.lifecycle_manager.test_manifests_of_modules import CLOUD_RESOURCES, gone
from tests.integration.lifecycle_manager.test_real_module_cr import (
    TELEMETRY,
    TRACE_PIPELINES,
    configured,
    enabled,
    pytestmark,
)
from tests.registries import BlobServer
from tests.waiting import consistently, eventually

__all__ = ["pytestmark"]
SKR = names.SKR_NAMESPACE
OWN_CONDITION = "TraceComponentsHealthy"
FINALIZER = "telemetry.kyma-project.io/finalizer"
OWN_PIPELINE = {"spec": {"output": {"otlp": {"endpoint": {"value": "https://own.example.com:4317"}}}}}


async def test_operators_status_stays_and_its_finalizer_waits_for_no_object_of_the_manager(
    walkthrough: Walkthrough, layers: BlobServer
) -> None:
    async with (
        enabled(TELEMETRY, walkthrough, layers) as environment,
        PlayedOperator(environment).working() as operator,
    ):
        await eventually(lambda: operator.says("Ready"), what="the operator's first status")
        for tenant in ("shop", "shop-of-today"):
            await configured(TELEMETRY, environment, {"enrichments": {"cluster": {"name": tenant}}})
            await eventually(partial(operator.has_tenant, tenant), what=f"the pipeline of {tenant}")
            await eventually(lambda: operator.says("Warning"), what="the operator's answer to it")
        await eventually(lambda: operator.says("Warning", alone=True), what="the operator's status alone")
        await consistently(lambda: operator.says("Warning", alone=True), what="the operator's status alone")
        await eventually(lambda: operator.is_shown("Warning"), what="the operator's state in the Kyma")

        await environment.skr.apply(TRACE_PIPELINES, "own", OWN_PIPELINE, field_manager="user")
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(lambda: operator.is_shown("Deleting", "TracePipeline own"), what="what blocks the removal")
        await eventually(lambda: operator.has_pipelines("own"), what="the end of the manager's pipeline")
        await environment.skr.delete(TRACE_PIPELINES, "own")

        async def is_gone() -> bool:
            await operator.reconcile()
            return await gone(environment, "telemetry")()

        await eventually(is_gone, what="the end of the module")
        assert not any(PIPELINE in each for each in operator.messages), "users cannot delete what the manager brought"


@dataclass(frozen=True)
class PlayedOperator:
    """Each question lets it reconcile first."""

    environment: Environment
    messages: set[str] = field(default_factory=set)
    """What the Kyma said of the module."""

    @asynccontextmanager
    async def working(self) -> AsyncIterator["PlayedOperator"]:
        """Keep nothing at the end, which a test that has failed would."""
        try:
            yield self
        finally:
            skr = self.environment.skr
            with suppress(NotFound, NotServed):
                await skr.delete(TRACE_PIPELINES, "own")
            with suppress(NotFound, NotServed):
                released: dict[str, Any] = {"metadata": {"finalizers": []}}
                await skr.merge_patch(TELEMETRY.module_crs, "default", released, SKR, field_manager="manager")

    async def reconcile(self) -> None:
        skr, crs = self.environment.skr, TELEMETRY.module_crs
        try:
            pipelines = (await skr.list(TRACE_PIPELINES)).items
            found = await skr.get(crs, "default", SKR)
            metadata, status = found["metadata"], found.get("status", {})
            is_deleted = "deletionTimestamp" in metadata
            others = [each for each in status.get("conditions", ()) if each["type"] != OWN_CONDITION]
            conditions = [*others, _condition(healthy=not pipelines)]
            is_warning = any(each["status"] == "False" for each in conditions)
            state = "Warning" if is_warning else "Deleting" if is_deleted else "Ready"
            wanted = {"state": state, "conditions": conditions}
            locked = {"resourceVersion": metadata["resourceVersion"]}
            if {each: status.get(each) for each in wanted} != wanted:
                patch = {"metadata": locked, "status": wanted}
                await skr.merge_patch(crs, "default", patch, SKR, subresource="status", field_manager="manager")
            elif is_deleted == (FINALIZER in metadata.get("finalizers", ())) and not (is_deleted and pipelines):
                patch = {"metadata": {**locked, "finalizers": [] if is_deleted else [FINALIZER]}}
                await skr.merge_patch(crs, "default", patch, SKR, field_manager="manager")
        except (Conflict, NotFound, NotServed):
            return  # it reads again

    async def says(self, state: str, *, alone: bool = False) -> bool:
        await self.reconcile()
        try:
            status = (await self.environment.skr.get(TELEMETRY.module_crs, "default", SKR)).get("status", {})
        except (NotFound, NotServed):
            return False
        types = [each["type"] for each in status.get("conditions", ())]
        return status.get("state") == state and OWN_CONDITION in types and (not alone or types == [OWN_CONDITION])

    async def has_tenant(self, name: str) -> bool:
        await self.reconcile()
        try:
            found = await self.environment.skr.get(TRACE_PIPELINES, PIPELINE)
        except (NotFound, NotServed):
            return False
        return bool(found["spec"]["output"]["otlp"]["headers"] == [{"name": "tenant", "value": name}])

    async def has_pipelines(self, *wanted: str) -> bool:
        await self.reconcile()
        found = (await self.environment.skr.list(TRACE_PIPELINES)).items
        return [each["metadata"]["name"] for each in found] == list(wanted)

    async def is_shown(self, state: str, words: str = "") -> bool:
        """Tell whether the user's Kyma shows a state of the module, and these words."""
        await self.reconcile()
        modules = (await self.environment.skr.get(KYMAS, "default", SKR)).status.modules
        shown = next((each for each in modules if each.name == "telemetry"), None)
        self.messages.update([shown.message] if shown is not None else ())
        return shown is not None and shown.state == state and words in shown.message


def _condition(*, healthy: bool) -> dict[str, Any]:
    return {
        "type": OWN_CONDITION,
        "status": str(healthy),
        "reason": "NoPipelineDeployed" if healthy else "GatewayNotReady",
        "message": "as telemetry's operator says it",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
