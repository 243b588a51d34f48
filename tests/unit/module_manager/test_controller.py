"""What triggers a reconcile, and own writes whose events and answers arrive in any order. On a simulated API server."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Change, Client, ClientOptions, Informer, KubeconfigPolicy, Manager, ObjectKey
from kube_simulation import serve_simulation
from kyma_module_manager import ModuleContext, ModuleManager, module_manager
from kyma_module_manager.controller import applied_again, changed_by_others, content_changed, setup
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import MAX_WRITES, Reconciler
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES, ClusterWriter
from lifecycle_manager_api import ModuleConfig, State, SyncResource, crds, names
from tests.unit.module_manager.configs import make_config, make_sync_resource
from tests.waiting import eventually

NAME = "module-manager-colours"


@module_manager("colours", crd=dict)
def colours(config: dict[str, Any]) -> list[dict[str, Any]]:
    data = {"colour": config["spec"]["colour"]}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colour"}, "data": data}]


@module_manager("colours", crd=dict)
def staged(config: dict[str, Any], _: ModuleContext) -> list[dict[str, Any]]:
    return [*colours(config, _)]


def module_cr(colour: str) -> dict[str, Any]:
    return {"metadata": {"name": "default", "namespace": "kyma-system"}, "spec": {"colour": colour}}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    async with serve_simulation() as simulation:
        kubeconfig = simulation.cluster("kcp").kubeconfig
        options, policy = ClientOptions(qps=0), KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(kubeconfig, options=options, policy=policy) as made:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.KCP_NAMESPACE}}
            for document in (*crds.all_crds(), namespace):
                resource = await made.mapper.resource(document["apiVersion"], document["kind"])
                await made.apply(resource, document["metadata"]["name"], document, field_manager="test")
            yield made


class HeldWriter(ClusterWriter):
    """Holds the answer to a write of a SyncResource back until a test has seen to its deletion."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, NAME)
        self.before_answer: Callable[[SyncResource], Any] | None = None
        self.written: list[SyncResource] = []
        self.statuses = 0

    async def status(self, document: Mapping[str, Any]) -> ModuleConfig | None:
        self.statuses += 1
        return await super().status(document)

    async def sync_resource(self, document: Mapping[str, Any]) -> SyncResource | None:
        answer = await super().sync_resource(document)
        assert answer is not None
        self.written.append(answer)
        if self.before_answer is not None:
            hook, self.before_answer = self.before_answer, None
            await hook(answer)
        return answer


class Running:
    """A manager on the simulated control plane, and what it has reconciled."""

    def __init__(self, client: Client, manager: ModuleManager[Any], applied_seconds: float) -> None:
        self.runtime = Manager(client, namespace=names.KCP_NAMESPACE)
        selector = f"{names.MODULE_NAME}={manager.module}"
        configs = self.runtime.informer(MODULE_CONFIGS, label_selector=selector)
        self.sync_resources = self.runtime.informer(SYNC_RESOURCES, label_selector=selector)
        self.writer = HeldWriter(client)
        reconciler = Reconciler(manager, configs, self.sync_resources, self.writer, ManagerMetrics(manager.module))
        self.controller = setup(self.runtime, reconciler, name=NAME, applied_seconds=applied_seconds)

    def reconciled(self) -> int:
        return sum(
            int(sample.value)
            for metric in self.runtime.registry.collect()
            for sample in metric.samples
            if sample.name == "controller_runtime_reconcile_total" and sample.labels["controller"] == NAME
        )

    async def quiet(self) -> int:
        """Wait until nothing is enqueued or under way; return how many reconciles have ended."""
        await asyncio.wait_for(self.controller.queue.drained(), 60)
        return self.reconciled()


@asynccontextmanager
async def running(
    client: Client, manager: ModuleManager[Any] = colours, *, applied_seconds: float = 0.0
) -> AsyncIterator[tuple[Running, ManagerHarness]]:
    made = Running(client, manager, applied_seconds)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(made.runtime.run(stopping))
        async with ManagerHarness.open(client, colours, "kyma-one") as harness:
            await eventually(lambda: made.runtime.working)
            yield made, harness
        stopping.set()


async def test_sync_resource_deleted_before_the_answer_to_its_creation_is_written_again(client: Client) -> None:
    async with running(client) as (manager, harness):

        async def delete(created: SyncResource) -> None:
            """Have the informer see creation and deletion, both before the reconciler has the answer."""
            key = ObjectKey(names.KCP_NAMESPACE, harness.name)
            await eventually(lambda: manager.sync_resources.cache.get(key))
            await client.delete(SYNC_RESOURCES, harness.name, names.KCP_NAMESPACE)
            await eventually(lambda: manager.sync_resources.cache.get(key) is None)

        manager.writer.before_answer = delete
        await harness.write_module_cr(module_cr("red"))

        second = await harness.sync_resource(lambda each: len(manager.writer.written) == 2)
        assert second.metadata.uid == manager.writer.written[1].metadata.uid
        assert second.spec.resource == manager.writer.written[0].spec.resource
        assert manager.writer.written[0].metadata.uid != second.metadata.uid


async def test_writes_that_change_nothing_trigger_no_reconcile(client: Client) -> None:
    async with running(client) as (manager, harness):
        await harness.write_module_cr(module_cr("red"))
        await harness.sync_resource()
        await harness.report(State.READY)
        await harness.module_config(lambda each: each.status.state == State.READY)
        before = await manager.quiet()

        await harness.write_module_cr(module_cr("red"))  # changes nothing
        await harness.report(State.READY)

        assert await manager.quiet() == before
        assert len(manager.writer.written) == 1


async def change(harness: ManagerHarness, colour: str, generation: int) -> None:
    await harness.write_module_cr(module_cr(colour))
    await harness.sync_resource(lambda each: each.metadata.generation == generation)
    await harness.report(State.READY)


async def ready(harness: ManagerHarness, generation: int) -> None:
    await harness.module_config(
        lambda each: (each.status.state, each.status.observed_generation) == (State.READY, generation)
    )


async def test_changes_in_a_row_cost_one_write_of_the_status(client: Client) -> None:
    async with running(client, applied_seconds=1.5) as (manager, harness):
        await change(harness, "red", 1)
        await ready(harness, 1)
        before = manager.writer.statuses

        await change(harness, "blue", 2)
        await change(harness, "green", 3)

        await ready(harness, 3)
        assert manager.writer.statuses == before + 1


async def test_second_stage_does_not_wait_for_further_changes(client: Client) -> None:
    async with running(client, staged, applied_seconds=3600.0) as (_, harness):
        await change(harness, "red", 1)
        await ready(harness, 1)

        await change(harness, "blue", 2)

        await ready(harness, 2)


async def test_failure_after_a_change_does_not_wait_for_further_changes(client: Client) -> None:
    async with running(client, applied_seconds=3600.0) as (_, harness):
        await change(harness, "red", 1)
        await ready(harness, 1)
        await harness.write_module_cr(module_cr("blue"))
        await harness.sync_resource(lambda each: each.metadata.generation == 2)

        await harness.report(State.ERROR, reason="ApplyFailed")

        await harness.module_config(lambda each: each.status.state == State.ERROR)


async def test_sync_resource_that_somebody_edits_is_restored(client: Client) -> None:
    async with running(client) as (manager, harness):
        await harness.write_module_cr(module_cr("red"))
        first = await harness.sync_resource()

        patch = {"spec": {"resource": "---"}}
        await client.merge_patch(SYNC_RESOURCES, harness.name, patch, names.KCP_NAMESPACE)

        await harness.sync_resource(lambda each: each.metadata.generation > first.metadata.generation + 1)
        assert manager.writer.written[-1].spec.resource == first.spec.resource


def is_of(colour: str, written: SyncResource) -> bool:
    return colour in written.spec.resource


async def test_objects_that_differ_in_each_run_are_not_written_without_end(client: Client) -> None:
    runs = itertools.count()

    @module_manager("colours", crd=dict)
    def restless(config: dict[str, Any]) -> list[dict[str, Any]]:
        data = {"colour": f"{config['spec']['colour']} {next(runs)}"}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colour"}, "data": data}]

    async with running(client, restless) as (manager, harness):
        for number, colour in enumerate(("red", "blue"), start=1):
            await harness.write_module_cr(module_cr(colour))
            await harness.sync_resource(partial(is_of, colour))
            for state in (State.PROCESSING, State.READY) * MAX_WRITES:
                await harness.report(state)
                await manager.quiet()
                assert len(manager.writer.written) <= number * MAX_WRITES
            await ready(harness, number)
        assert len(manager.writer.written) == 2 * MAX_WRITES


async def test_sync_resource_without_a_module_config_triggers_nothing(client: Client) -> None:
    async with running(client) as (manager, harness):
        before = await manager.quiet()
        document = {
            "metadata": {"name": harness.name, "labels": {names.MODULE_NAME: "colours", names.KYMA_NAME: "kyma-one"}},
            "spec": {"kyma": "kyma-one", "module": "colours", "resource": ""},
        }

        await client.apply(SYNC_RESOURCES, harness.name, document, names.KCP_NAMESPACE, field_manager="test")
        await eventually(lambda: manager.sync_resources.cache.get(ObjectKey(names.KCP_NAMESPACE, harness.name)))

        assert await manager.quiet() == before


async def test_state_of_a_deleted_module_config_is_dropped(client: Client) -> None:
    async with running(client) as (manager, harness):
        await harness.write_module_cr(module_cr("red"))
        await harness.sync_resource()
        key = ObjectKey(names.KCP_NAMESPACE, harness.name)
        await eventually(lambda: manager.controller.state(key))

        await client.delete(MODULE_CONFIGS, harness.name, names.KCP_NAMESPACE)

        await eventually(lambda: manager.controller.state(key) is None)


@pytest.mark.parametrize(
    ("old", "new", "triggers"),
    [
        (None, make_config(), True),
        (make_config(), make_config(generation=2), True),
        (make_config(), make_config(deleting=True), True),
        (make_config(), make_config(annotations={}), True),
        (make_config(), make_config(resourceVersion="101", status={"state": "Ready"}), False),
        (make_config(), None, False),
    ],
)
def test_new_content_of_a_module_config_is_a_trigger_and_a_new_status_is_not(
    old: ModuleConfig | None, new: ModuleConfig | None, *, triggers: bool
) -> None:
    assert content_changed(Change(old=old, new=new)) is triggers


async def test_own_write_of_a_sync_resource_is_not_a_trigger(client: Client) -> None:
    informer = Informer(client, SYNC_RESOURCES)
    informer.wrote(make_sync_resource(resourceVersion="201"))

    assert not changed_by_others(informer)(
        Change(old=make_sync_resource(), new=make_sync_resource(resourceVersion="201"))
    )


async def test_status_and_deletion_of_a_sync_resource_are_triggers(client: Client) -> None:
    found = changed_by_others(Informer(client, SYNC_RESOURCES))

    assert found(
        Change(old=make_sync_resource(), new=make_sync_resource(resourceVersion="201", status={"state": "Ready"}))
    )
    assert found(Change(old=make_sync_resource(), new=None))


def test_sync_resource_is_applied_again_once_the_present_text_is_ready() -> None:
    def ready_with(generation: int, observed: int) -> SyncResource:
        return make_sync_resource(generation=generation, status={"state": "Ready", "observedGeneration": observed})

    failed = make_sync_resource(generation=2, status={"state": "Error", "observedGeneration": 2})
    assert applied_again(Change(old=ready_with(2, 1), new=ready_with(2, 2)))
    assert not applied_again(Change(old=ready_with(3, 1), new=ready_with(3, 2)))
    assert not applied_again(Change(old=ready_with(2, 2), new=ready_with(2, 2)))
    assert not applied_again(Change(old=ready_with(1, 1), new=ready_with(2, 2)))
    assert not applied_again(Change(old=ready_with(2, 1), new=failed))
    assert not applied_again(Change(old=failed, new=ready_with(2, 2)))
    assert not applied_again(Change(old=None, new=ready_with(2, 2)))
    assert not applied_again(Change(old=ready_with(2, 2), new=None))


async def test_reconcile_may_take_longer_than_the_function(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    controller = Manager.controller

    def noted(runtime: Manager, name: str, **options: Any) -> Any:
        given.append(options["timeout_seconds"])
        return controller(runtime, name, **options)

    monkeypatch.setattr(Manager, "controller", noted)
    Running(client, replace(colours, timeout_seconds=120), 0.0)
    assert given[0] > 120
