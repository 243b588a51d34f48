"""The verbs, against a real API server and a simulated one."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any, ClassVar

import msgspec
import pytest

from kube_runtime import (
    AlreadyExists,
    ApiError,
    Applier,
    Client,
    Conflict,
    Gone,
    Invalid,
    KindUnknown,
    NotFound,
    NotServed,
    ObjectKey,
    Resource,
    TooManyRequests,
    parse_objects,
)
from kube_runtime.client.built_in_kinds import BUILT_IN_KINDS
from tests.integration.kube_runtime.things import THINGS, as_text, definition
from tests.kinds import CONFIG_MAPS, SERVICE_ACCOUNTS
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("kcp", ["real", "simulated"], indirect=True)
MANAGER = "test"


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    GROUP: ClassVar[str] = ""
    VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"
    PLURAL: ClassVar[str] = "configmaps"
    NAMESPACED: ClassVar[bool] = True
    metadata: Metadata
    data: dict[str, str] = {}


TYPED = Resource.of(ConfigMap)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_object_is_created_read_and_deleted(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("one", a="1"), namespace, field_manager=MANAGER)
    read = await client.get(CONFIG_MAPS, "one", namespace)
    assert read == created
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("one"), namespace, field_manager=MANAGER)

    await client.delete(CONFIG_MAPS, "one", namespace)

    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "one", namespace)
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, "one", namespace)


async def test_typed_object_is_sent_and_read(client: Client, namespace: str) -> None:
    sent = ConfigMap(metadata=Metadata(name="one", labels={"a": "b"}), data={"x": "y"})

    applied = await client.apply(TYPED, "one", sent, namespace, field_manager=MANAGER)

    assert (applied.data, applied.metadata.labels, applied.metadata.namespace) == ({"x": "y"}, {"a": "b"}, namespace)
    assert TYPED.key_of(applied) == ObjectKey(namespace, "one")


async def test_apply_removes_what_it_no_longer_names_and_leaves_others_fields_alone(
    client: Client, namespace: str
) -> None:
    await client.apply(CONFIG_MAPS, "one", config_map("one", a="1", b="1"), namespace, field_manager=MANAGER)
    await client.merge_patch(CONFIG_MAPS, "one", {"data": {"c": "theirs"}}, namespace, field_manager="other")

    applied = await client.apply(CONFIG_MAPS, "one", config_map("one", a="2"), namespace, field_manager=MANAGER)

    assert applied["data"] == {"a": "2", "c": "theirs"}


async def test_apply_creates_an_object_that_is_named_by_the_call_alone(client: Client, namespace: str) -> None:
    for document in ({"data": {"a": "1"}}, {"metadata": {"labels": {"b": "c"}}, "data": {"a": "1"}}):
        applied = await client.apply(CONFIG_MAPS, "unnamed", document, namespace, field_manager=MANAGER)
        assert (applied["metadata"]["name"], applied["data"]) == ("unnamed", {"a": "1"})


async def test_conflict_names_the_field_and_its_owner(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, "one", config_map("one", a="1"), namespace, field_manager="first")

    with pytest.raises(Conflict) as conflict:
        await client.apply(CONFIG_MAPS, "one", config_map("one", a="2"), namespace, field_manager="second", force=False)

    assert [(cause.field, cause.message) for cause in conflict.value.causes] == [(".data.a", 'conflict with "first"')]


async def test_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    applied = await client.apply(
        CONFIG_MAPS, "one", config_map("one", a="1"), namespace, field_manager=MANAGER, dry_run=True
    )
    assert applied["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "one", namespace)


async def test_field_that_does_not_exist_is_refused(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError, match="not declared in schema"):
        await client.apply(
            CONFIG_MAPS, "one", {"metadata": {"name": "one"}, "date": {}}, namespace, field_manager=MANAGER
        )


async def test_rule_that_is_broken_is_named_with_its_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as invalid:
        await client.create(CONFIG_MAPS, config_map("Not_A_Name"), namespace, field_manager=MANAGER)

    assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]


async def test_writes_with_a_precondition_fail_when_somebody_was_faster(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("one", a="1"), namespace, field_manager=MANAGER)
    await client.merge_patch(CONFIG_MAPS, "one", {"data": {"a": "2"}}, namespace)
    version, uid = created["metadata"]["resourceVersion"], created["metadata"]["uid"]

    with pytest.raises(Conflict):
        await client.merge_patch(CONFIG_MAPS, "one", {"metadata": {"resourceVersion": version}}, namespace)
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, "one", {**created, "data": {}}, namespace, field_manager=MANAGER)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "one", namespace, resource_version=version)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "one", namespace, uid="another")
    await client.delete(CONFIG_MAPS, "one", namespace, uid=uid)


async def test_object_with_a_finalizer_stays_after_its_deletion(client: Client, namespace: str) -> None:
    held = {"metadata": {"name": "one", "finalizers": ["example.com/hold"]}}
    await client.create(CONFIG_MAPS, held, namespace, field_manager=MANAGER)

    left = await client.delete(CONFIG_MAPS, "one", namespace)
    assert left is not None
    assert left["metadata"]["deletionTimestamp"]

    await client.merge_patch(CONFIG_MAPS, "one", {"metadata": {"finalizers": None}}, namespace)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "one", namespace)


async def test_list_comes_in_pages_and_by_selector(client: Client, namespace: str) -> None:
    for number in range(7):
        document = {"metadata": {"name": f"cm-{number}", "labels": {"odd": str(number % 2)}}}
        await client.create(CONFIG_MAPS, document, namespace, field_manager=MANAGER)

    listed = await client.list(CONFIG_MAPS, namespace, page_size=3)
    odd = await client.list(CONFIG_MAPS, namespace, label_selector="odd=1")
    one = await client.list(CONFIG_MAPS, namespace, field_selector="metadata.name=cm-4")

    assert [item["metadata"]["name"] for item in listed.items] == [f"cm-{number}" for number in range(7)]
    assert (len(odd.items), len(one.items)) == (3, 1)
    assert {item["kind"] for item in listed.items} == {"ConfigMap"}
    assert listed.resource_version


async def test_watch_follows_from_a_version(client: Client, namespace: str) -> None:
    version = (await client.list(CONFIG_MAPS, namespace)).resource_version
    await client.create(CONFIG_MAPS, config_map("one", a="1"), namespace, field_manager=MANAGER)
    await client.merge_patch(CONFIG_MAPS, "one", {"data": {"a": "2"}}, namespace)
    await client.delete(CONFIG_MAPS, "one", namespace)

    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(120):
        async with aclosing(client.watch(CONFIG_MAPS, namespace, resource_version=version)) as watch:
            async for event in watch:
                assert event.object is not None
                seen.append((event.type, event.object["data"]["a"]))
                if event.type == "DELETED":
                    break

    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_version_that_is_too_old_is_gone(client: Client) -> None:
    await Applier(client, field_manager=MANAGER).apply(parse_objects(as_text(definition())))

    async def watch() -> bool:
        try:
            async for _ in client.watch(THINGS, resource_version="1"):
                pass
        except TooManyRequests:
            pass  # until the new kind's storage is ready
        return False

    with pytest.raises(Gone):
        await asyncio.wait_for(eventually(watch), 120)


async def test_kind_becomes_a_resource(client: Client) -> None:
    assert await client.mapper.resource("v1", "ConfigMap") == CONFIG_MAPS
    deployments = await client.mapper.resource("apps/v1", "Deployment")
    assert (deployments.plural, deployments.namespaced) == ("deployments", True)
    for api_version, kind in (("apps/v1", "Nothing"), ("nowhere.io/v1", "X"), ("../v1", "X"), ("", "X")):
        with pytest.raises(KindUnknown):
            await client.mapper.resource(api_version, kind)


async def test_table_of_built_in_kinds_says_what_the_server_says(
    client: Client, request: pytest.FixtureRequest
) -> None:
    for api_version in sorted({api_version for api_version, _ in BUILT_IN_KINDS}):
        served: dict[str, Any] = {}
        with suppress(NotServed):  # by the simulated one
            served = await client.mapper._ask(api_version)  # noqa: SLF001 - the answer of the server itself
        known = {kind: each for (of, kind), each in BUILT_IN_KINDS.items() if of == api_version}
        assert known.keys() <= served.keys() or "simulated" in request.node.name
        assert known == {kind: served.get(kind, each) for kind, each in known.items()}


async def test_subresource_is_created(client: Client, namespace: str) -> None:
    account = {"metadata": {"name": "robot"}}
    await client.create(SERVICE_ACCOUNTS, account, namespace, field_manager=MANAGER)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}

    issued = await client.create_subresource(SERVICE_ACCOUNTS, "robot", namespace, "token", request)

    assert issued["status"]["token"]


async def test_server_says_its_version(client: Client) -> None:
    assert (await client.server_version()).startswith("v")
