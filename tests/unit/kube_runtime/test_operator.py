"""Operators that are declared by decorators, on simulated clusters, and the command that runs them."""

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from kube_crds import CustomResource, Struct, crd_of
from kube_runtime import Client, KubeconfigPolicy, Manager, Resource
from kube_runtime.command import main
from kube_runtime.operator import Operator, Owner
from kube_simulation import serve_simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

CRDS = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)


class PageSpec(Struct, frozen=True, kw_only=True):
    text: str


class PageStatus(Struct, frozen=True, kw_only=True):
    shown: str = ""


class Page(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "pages.example.com"
    spec: PageSpec
    status: PageStatus = PageStatus()


async def test_operator_comes_to_rest_after_child_and_status_are_written() -> None:
    operator, calls = Operator("pages"), 0

    @operator.reconciles(Page, owns=[CONFIG_MAPS])
    async def reconcile(page: Page, owner: Owner[Page]) -> float:
        nonlocal calls
        calls += 1
        await owner.apply(CONFIG_MAPS, {"data": {"text": page.spec.text}})
        await owner.write_status(PageStatus(shown=page.spec.text))
        return 0.01

    async with serve_simulation() as simulation:
        cluster = simulation.cluster("one")
        policy, stopping = KubeconfigPolicy(allow_insecure=True), asyncio.Event()
        async with (
            await Client.from_kubeconfig(cluster.kubeconfig, policy=policy) as client,
            asyncio.TaskGroup() as tasks,
        ):
            await client.create(CRDS, crd_of(Page), field_manager="user")
            await client.apply(
                Resource.of(Page), "one", Page(spec=PageSpec(text="hi")), "default", field_manager="user"
            )
            manager = Manager(client, namespace="default")
            operator.setup(manager)
            tasks.create_task(manager.run(stopping))
            await eventually(lambda: calls >= 10)
            stopping.set()

    written = [
        (each.resource, each.subresource)
        for each in cluster.requests(lambda each: each.is_write and each.manager == "pages")
    ]
    assert written == [("configmaps", ""), ("pages.pages.example.com", "status")]


async def test_child_of_a_kind_that_is_not_owned_is_refused() -> None:
    async with serve_simulation() as simulation:
        kubeconfig, policy = simulation.cluster("one").kubeconfig, KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(kubeconfig, policy=policy) as client:
            page = Page(spec=PageSpec(text="hi"))
            owner = Owner(item=page, resource=Resource.of(Page), manager=Manager(client), operator="pages", children={})

            with pytest.raises(
                ValueError, match=r"ConfigMap \(v1\) is not in owns= of the function that reconciles Page"
            ):
                await owner.apply(CONFIG_MAPS, {})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "declares 0 operators: expected one `Operator(name)`"),
        (
            "from kube_runtime.operator import Operator\na, b = Operator('a'), Operator('b')",
            "declares 2 operators: expected one `Operator(name)`",
        ),
    ],
)
def test_file_without_one_operator_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    file = tmp_path / "mistaken_operator.py"
    file.write_text(text)

    assert main(["run", str(file)]) == 2
    assert capsys.readouterr().err == f"error: {file} {error}\n"
