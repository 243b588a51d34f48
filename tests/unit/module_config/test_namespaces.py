"""The namespace in KCP of a module's ModuleConfigs is that of its ModulePolicy, and nobody else decides it."""

import asyncio

import pytest

from kube_runtime import KubeError
from kube_simulation import ApiRequest, Refuse, Refused
from lifecycle_manager.contract.conditions import NAMESPACE_NOT_WRITABLE, namespace_problem
from lifecycle_manager.contract.resources import MODULE_CONFIGS, MODULE_POLICIES, NAMESPACES
from lifecycle_manager.contract.signals import ModuleConfigsWritten, ReadScope
from lifecycle_manager.kyma.snapshot import KymaState
from lifecycle_manager_api import names
from tests import builders
from tests.unit.module_config.test_controller import GROUP, MODULE, NAME, Module, changed, module
from tests.world import KCP, NO_API, key_of

OWN, FOREIGN = "module-cloud-resources", "foreign"


async def own_namespace(it: Module) -> None:
    """Create a namespace, and the ModulePolicy that names it."""
    await create_namespace(it, OWN)
    named = [{"group": GROUP, "kind": "Infrastructure"}]
    policy = {"metadata": {"name": MODULE}, "spec": {"controlPlaneNamespace": OWN, "moduleCrKinds": named}}
    await it.world.kcp.delete(MODULE_POLICIES, MODULE, KCP)
    await it.world.kcp.apply(MODULE_POLICIES, MODULE, policy, KCP, field_manager="operator")


async def create_namespace(it: Module, name: str, **labels: str) -> None:
    document = {"metadata": {"name": name, "labels": labels}}
    await it.world.kcp.apply(NAMESPACES, name, document, field_manager="operator")


async def texts(it: Module) -> dict[tuple[str, str], str]:
    """Return the values in all ModuleConfigs, by namespace and name."""
    found = (await it.world.kcp.list(MODULE_CONFIGS)).items
    values = ("one", "two", "three", "")
    return {
        (each.metadata.namespace, each.metadata.name): next(value for value in values if value in each.spec.resource)
        for each in found
    }


async def test_module_config_is_written_in_the_namespace_of_the_policy() -> None:
    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        await it.reconcile()
        assert await texts(it) == {(OWN, NAME): "one"}
        await it.delete()
        await it.reconcile(changed(operation="DELETE"))
        assert await texts(it) == {}


async def test_label_on_a_namespace_diverts_no_module_config() -> None:
    """An attack: whoever may create a Namespace labels it with the name of a module, before or after its first one."""
    label = {names.MODULE_NAME: MODULE}
    async with module() as it:
        await create_namespace(it, FOREIGN, **label)
        await it.write("one")
        await it.reconcile()
        assert await texts(it) == {(KCP, NAME): "one"}
        await create_namespace(it, "another", **label)
        await it.write("two")
        await it.reconcile(ReadScope.EVERYTHING)
        assert await texts(it) == {(KCP, NAME): "two"}


async def test_module_config_in_another_namespace_is_neither_counted_nor_changed() -> None:
    async with module() as it:
        await create_namespace(it, FOREIGN)
        forged = builders.as_written(builders.module_config(NAME, namespace=FOREIGN))
        await it.world.kcp.create(MODULE_CONFIGS, forged, FOREIGN, field_manager="stranger")
        await it.write("one")
        await it.reconcile()
        assert await texts(it) == {(KCP, NAME): "one", (FOREIGN, NAME): ""}
        await it.delete()
        await it.reconcile(ReadScope.EVERYTHING)
        assert await texts(it) == {(FOREIGN, NAME): ""}


HAS_NO_ROOM = (
    'moduleconfigs.operator.kyma-project.io "demo-cloud-resources" is forbidden: exceeded quota: few, '
    "requested: count/moduleconfigs.operator.kyma-project.io=1, used: count/moduleconfigs.operator.kyma-project.io=0, "
    "limited: count/moduleconfigs.operator.kyma-project.io=0"
)
NO_NAMESPACE = Refused(404, "NotFound", f'namespaces "{OWN}" not found', {"kind": "namespaces", "name": OWN})
IS_GOING = f"unable to create new content in namespace {OWN} because it is being terminated"
IS_DENIED = 'admission webhook "teams.example.com" denied the request: it has no team'
GOING_CAUSE = {"reason": "NamespaceTerminating", "message": f"namespace {OWN} is being terminated"}


@pytest.mark.parametrize(
    ("refused", "why", "advice"),
    [
        (Refused(403, "Forbidden", "no RoleBinding"), "has no rights there", True),
        (NO_NAMESPACE, "there is no such namespace", True),
        (Refused(403, "Forbidden", HAS_NO_ROOM), "a ResourceQuota there is used up", False),
        (Refused(403, "Forbidden", IS_GOING, {"causes": [GOING_CAUSE]}), "it is being deleted", False),
        (Refused(400, "BadRequest", IS_DENIED), "a webhook or policy denies it", False),
    ],
    ids=["rights", "namespace", "quota", "terminating", "denied"],
)
async def test_namespace_in_which_nothing_can_be_written_is_an_event_of_the_policy(
    refused: Refused, why: str, *, advice: bool
) -> None:
    def is_own(request: ApiRequest) -> bool:
        return request.is_write and f"/namespaces/{OWN}/" in request.path

    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        with it.world.cluster("kcp").ruled_by(Refuse(is_own, refused=refused)), pytest.raises(KubeError):
            await it.reconcile()
        (note,) = (note for reason, note in it.world.events if reason == NAMESPACE_NOT_WRITABLE)
        assert all(each in note for each in (OWN, why))
        assert ("RoleBinding of ClusterRole lifecycle-manager-modules" in note) == advice
        assert await texts(it) == {}  # in no other namespace instead
        await it.reconcile()
        assert await texts(it) == {(OWN, NAME): "one"}


async def test_kyma_says_whose_module_configs_cannot_be_written_beside_other_causes() -> None:
    def is_own(request: ApiRequest) -> bool:
        return request.is_write and f"/namespaces/{OWN}/" in request.path

    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        await it.world.choose(MODULE, "unknown")
        published: list[ModuleConfigsWritten] = []
        it.world.manager.on(ModuleConfigsWritten, published.append)

        async def shown() -> dict[str, tuple[str, str]]:
            await it.world.turn("kyma", key_of("demo"), *published)
            published.clear()
            return {each.name: (each.state.value, each.message) for each in (await it.world.in_kcp()).status.modules}

        refused = NO_NAMESPACE
        with it.world.cluster("kcp").ruled_by(Refuse(is_own, refused=refused)):
            for _ in range(2):
                with pytest.raises(KubeError):
                    await it.reconcile()
                state, message = (await shown())[MODULE]
                assert state == "Warning"
                assert f"{namespace_problem(OWN, 'there is no such namespace')} ({NAMESPACE_NOT_WRITABLE})" in message
        assert "unknown" in (await shown())
        in_skr = {each.name: each for each in (await it.world.in_skr()).status.modules}
        assert NAMESPACE_NOT_WRITABLE in in_skr[MODULE].message
        assert OWN not in in_skr[MODULE].message
        kyma = await it.world.in_kcp()
        assert MODULE in KymaState().note_problems(kyma, ())  # as after a restart
        await it.reconcile()
        assert NAMESPACE_NOT_WRITABLE not in (await shown())[MODULE][1]
        await it.reconcile()
        assert published == []


async def test_nothing_is_written_before_the_policies_are_known() -> None:
    """Without them, ModuleConfigs would be written in kcp-system, where all Module Managers may read them."""

    def is_of_policies(request: ApiRequest) -> bool:
        return "modulepolicies" in request.path

    async with module(introduced=False) as it:
        await own_namespace(it)
        with it.world.cluster("kcp").ruled_by(Refuse(is_of_policies, refused=NO_API)):
            async with it.world.manager.background():
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await it.world.manager.start()
                assert not it.world.manager.working
        assert await texts(it) == {}


async def test_change_of_a_module_with_its_own_namespace_costs_one_read_and_one_write() -> None:
    async with module() as it:
        await own_namespace(it)
        await it.write("one")
        await it.reconcile()
        await it.write("two")
        before = it.world.requests
        await it.reconcile(changed())
        writes = it.world.cluster("kcp").requests(lambda record: record.is_write, since=before)
        assert [(each.namespace, each.name) for each in writes] == [(OWN, NAME)]
        assert it.requests(before) == ["get"]
