"""Declaring a function as a manager, in each of its forms."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kyma_module_manager import DeclarationError, ModuleContext, PermanentError, RenderingFailed, module_manager
from tests.unit.module_manager.configs import make_config

THING = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing"}}


@pytest.fixture
def context() -> ModuleContext:
    return ModuleContext(make_config())


async def test_plain_function_that_returns_a_list(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any], context: ModuleContext) -> list[dict[str, Any]]:
        return [THING]

    assert (await objects.rendered({}, context)).objects == (THING,)


async def test_generator_without_context(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield THING

    assert (await objects.rendered({}, context)).objects == (THING,)


async def test_coroutine_function(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    async def objects(config: dict[str, Any], context: ModuleContext) -> list[dict[str, Any]]:
        return [THING]

    assert (await objects.rendered({}, context)).objects == (THING,)


async def test_asynchronous_generator(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    async def objects(config: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        yield THING

    assert (await objects.rendered({}, context)).objects == (THING,)


async def test_plain_function_runs_on_the_event_loop_unless_in_thread_is_set(context: ModuleContext) -> None:
    seen: list[int] = []

    def note(config: dict[str, Any]) -> list[dict[str, Any]]:
        seen.append(threading.get_ident())
        return []

    await module_manager("cloud-resources", crd=dict)(note).rendered({}, context)
    await module_manager("cloud-resources", crd=dict, in_thread=True)(note).rendered({}, context)

    assert seen[0] == threading.get_ident()
    assert seen[1] != threading.get_ident()


async def test_exception_of_the_function_is_a_failed_rendering(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        raise KeyError("colour")

    with pytest.raises(RenderingFailed, match="KeyError: 'colour'"):
        await objects.rendered({}, context)


async def test_permanent_error_of_the_function_is_raised_unchanged(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        raise PermanentError("there is no such colour", reason="NoSuchColour")

    with pytest.raises(PermanentError) as raised:
        await objects.rendered({}, context)
    assert raised.value.reason == "NoSuchColour"


async def test_function_that_takes_too_long_times_out(context: ModuleContext) -> None:
    @module_manager("cloud-resources", crd=dict, timeout_seconds=0.01)
    async def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(RenderingFailed, match=r"timed out after 0\.01 s"):
        await objects.rendered({}, context)


def test_manager_without_a_module_is_rejected() -> None:
    with pytest.raises(DeclarationError, match="requires the name of the module"):
        module_manager("", crd=dict)(lambda config: [])


def test_function_without_parameters_is_rejected() -> None:
    def objects() -> list[dict[str, Any]]:
        return []

    with pytest.raises(DeclarationError, match="must take one or two parameters"):
        module_manager("cloud-resources", crd=dict)(objects)  # type: ignore[arg-type]


def test_asynchronous_function_in_a_thread_is_rejected() -> None:
    async def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        return []

    with pytest.raises(DeclarationError, match="in_thread is for plain functions only"):
        module_manager("cloud-resources", crd=dict, in_thread=True)(objects)
