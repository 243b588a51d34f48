"""Webhooks of an operator, called by a real API server: with an address of their own, and behind a Service's CA."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from kube_crds import CustomResource, Struct, crd_of
from kube_runtime import Client, Invalid, KubeError, Manager, ManagerOptions, ObjectKey, Resource
from kube_runtime.admission.serving import WebhookServer
from kube_runtime.operator import Operator, Owner, Review
from tests.kinds import CRDS, WEBHOOKS
from tests.waiting import eventually, is_gone

MUTATING = Resource.dynamic(
    WEBHOOKS.group, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)


class SheetSpec(Struct, frozen=True, kw_only=True):
    text: str
    size: int = 0


class Sheet(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "sheets.example.com"
    spec: SheetSpec


SHEETS = Resource.of(Sheet)
operator = Operator("sheets")


@operator.finalizes(Sheet)
async def clean_up(sheet: Sheet, owner: Owner[Sheet]) -> None: ...


@operator.validates(Sheet)
def check(sheet: Sheet, review: Review[Sheet]) -> str | None:
    if review.old is not None and review.old.spec.text != sheet.spec.text:
        return f"{review.user} may not change the text"
    if sheet.spec.text == "raise":
        raise RuntimeError("a secret")
    if not sheet.spec.text.isalpha():
        review.warnings.append("the text has more than letters")
    return "the text is empty" if not sheet.spec.text else None


@operator.mutates(Sheet, operations=["CREATE"])
async def complete(sheet: Sheet, review: Review[Sheet]) -> Sheet | None:
    labels = {**sheet.metadata.labels, "example.com/size": "s"}
    spec = replace(sheet.spec, size=sheet.spec.size or len(sheet.spec.text))
    return replace(sheet, spec=spec, metadata=replace(sheet.metadata, labels=labels))


Running = Callable[..., AbstractAsyncContextManager[Manager]]


@pytest.fixture
def running(client: Client, namespace: str) -> Running:
    """Runs the operator with its webhooks."""

    @asynccontextmanager
    async def run(service: ObjectKey | None = None) -> AsyncIterator[Manager]:
        manager, stopping = Manager(client, ManagerOptions(name=operator.name), namespace=namespace), asyncio.Event()
        operator.setup(manager)
        WebhookServer(operator.name, operator.webhooks, ("127.0.0.1", 0), service).setup(manager, namespace)
        task = asyncio.create_task(manager.run(stopping))
        try:
            yield manager
        finally:
            stopping.set()
            await task

    return run


@pytest.fixture(autouse=True)
async def crd(client: Client) -> None:
    await client.apply(CRDS, "sheets.sheets.example.com", crd_of(Sheet), field_manager="test")


async def is_configured(client: Client) -> list[bool]:
    return [not await is_gone(client.get(kind, operator.name)) for kind in (WEBHOOKS, MUTATING)]


async def test_objects_are_checked_and_completed_before_they_are_stored(
    client: Client, namespace: str, running: Running
) -> None:
    create = partial(client.create, SHEETS, namespace=namespace, field_manager="test")

    def sheet(name: str, text: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"text": text}}

    async with running():

        async def completed() -> Sheet | None:
            try:
                made = await create(sheet("one", "hello"), dry_run=True)
            except KubeError:
                return None  # the API server follows configurations with a delay, and CRDs
            return made if made.spec.size else None

        made = await eventually(completed)
        assert (made.spec.size, made.metadata.labels) == (5, {"example.com/size": "s"})

        async def is_refused() -> bool:
            try:
                await create(sheet("two", ""), dry_run=True)
            except Invalid as error:
                return "the text is empty" in str(error)
            return False

        await eventually(is_refused)
        await create(sheet("one", "hello"))
        with pytest.raises(Invalid, match="may not change the text"):
            await client.merge_patch(SHEETS, "one", {"spec": {"text": "bye"}}, namespace)
        with pytest.raises(Invalid, match="the operator failed at this Sheet; its log says why"):
            await create(sheet("three", "raise"))
        await client.delete(SHEETS, "one", namespace)
        await eventually(lambda: is_gone(client.get(SHEETS, "one", namespace)))


async def test_configuration_is_removed_at_the_stop_but_for_one_behind_a_service(
    client: Client, namespace: str, running: Running
) -> None:
    """It refuses what nobody checks: behind a Service another replica does, or the next version."""

    async def is_there() -> bool:
        return await is_configured(client) == [True, True]

    async with running():
        await eventually(is_there)
    assert await is_configured(client) == [False, False]

    async with running(ObjectKey(namespace, "sheets")):
        await eventually(is_there)
    assert await is_configured(client) == [True, True]
    for kind in (WEBHOOKS, MUTATING):
        await client.delete(kind, operator.name)


async def test_configuration_that_somebody_changes_or_deletes_is_repaired(client: Client, running: Running) -> None:
    async def kept(uid: str = "") -> str | None:
        if await is_gone(client.get(WEBHOOKS, operator.name)):
            return None
        found = await client.get(WEBHOOKS, operator.name)
        is_whole = [each["failurePolicy"] for each in found["webhooks"]] == ["Fail"]
        return str(found["metadata"]["uid"]) if is_whole and found["metadata"]["uid"] != uid else None

    async with running():
        first = await eventually(kept)
        await client.delete(WEBHOOKS, operator.name)
        await eventually(lambda: kept(first))
        (webhook,) = (await client.get(WEBHOOKS, operator.name))["webhooks"]
        changed = {"webhooks": [{**webhook, "failurePolicy": "Ignore"}]}
        await client.merge_patch(WEBHOOKS, operator.name, changed)
        await eventually(kept)
