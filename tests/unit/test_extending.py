"""The controller that docs/extending.md adds works as it is shown there."""

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lifecycle_manager
from kube_runtime import Client, KubeconfigPolicy, Manager, NotFound, NotServed, dump_yaml
from kube_simulation import serve_simulation
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import names
from tests.waiting import eventually

PAGE = Path("docs/extending.md")
PACKAGE = "lifecycle_manager/src/lifecycle_manager"
DOMAIN = "lifecycle_manager.module_report"
FILES = ("__init__", "controller", "resources", "rules", "status")
BLOCK = re.compile(r"^```python\n# (?P<path>\S+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
KCP = names.KCP_NAMESPACE
MODULE = {"name": "cloud-resources", "version": "0.1.0", "state": "Processing"}


def code_blocks() -> dict[str, str]:
    return {block["path"]: block["code"] for block in BLOCK.finditer(PAGE.read_text())}


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The code of the page, with its domain as a package that can be imported."""
    blocks = code_blocks()
    for path, text in blocks.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(lifecycle_manager, "__path__", [*lifecycle_manager.__path__, str(tmp_path / PACKAGE)])
    yield blocks
    for name in [name for name in sys.modules if name == DOMAIN or name.startswith(f"{DOMAIN}.")]:
        del sys.modules[name]
    vars(lifecycle_manager).pop("module_report", None)


def test_page_shows_every_file_of_a_domain() -> None:
    expected = {f"{PACKAGE}/module_report/{file}.py" for file in FILES}
    assert set(code_blocks()) == expected | {f"{PACKAGE}/app.py", "tests/unit/module_report/test_rules.py"}


def test_unit_test_of_the_page_passes(code: dict[str, str]) -> None:
    found: dict[str, Any] = {}
    exec(code["tests/unit/module_report/test_rules.py"], found)  # noqa: S102 - our own page
    tests = [value for name, value in found.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert len(tests) == 4


async def test_controller_of_the_page_keeps_the_report_of_a_kyma(code: dict[str, str]) -> None:
    async with running(code[f"{PACKAGE}/app.py"]) as client:
        await client.apply(KYMAS, "demo", {"spec": {"channel": "regular"}}, KCP, field_manager="test")
        await eventually(lambda: report_is(client, ""))

        for state in ("Processing", "Ready"):
            status = {"status": {"modules": [MODULE | {"state": state}]}}
            await client.merge_patch(KYMAS, "demo", status, KCP, subresource="status", field_manager="test")
            await eventually(partial(report_is, client, f"cloud-resources 0.1.0 {state}\n"))

        await client.delete(config_maps(), "demo-modules", KCP)
        await eventually(lambda: report_is(client, "cloud-resources 0.1.0 Ready\n"))


async def test_controller_of_the_page_leaves_config_maps_of_others_alone(code: dict[str, str]) -> None:
    async with running(code[f"{PACKAGE}/app.py"]) as client:
        foreign = {"data": {"modules": "of somebody else"}}
        await client.apply(config_maps(), "demo-modules", foreign, KCP, field_manager="test")
        await client.apply(KYMAS, "demo", {"spec": {"channel": "regular"}}, KCP, field_manager="test")
        await client.apply(KYMAS, "next", {"spec": {"channel": "regular"}}, KCP, field_manager="test")
        await eventually(lambda: report_is(client, "", name="next-modules"))
        assert await report_is(client, "of somebody else")

        await client.delete(config_maps(), "demo-modules", KCP)
        await eventually(lambda: report_is(client, ""))


@asynccontextmanager
async def running(lines_of_app: str) -> AsyncIterator[Client]:
    """Run a Manager with the lines of the page, on a simulated control plane; yield a client of that."""
    async with serve_simulation() as simulation:
        kubeconfig = simulation.cluster("kcp").kubeconfig
        policy = KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(kubeconfig, policy=policy) as client:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KCP}}
            await apply_objects(client, dump_yaml(namespace))
            await apply_crds(client)
            stopping = asyncio.Event()
            manager = Manager(client, namespace=KCP)
            exec(lines_of_app, {"manager": manager})  # noqa: S102 - our own page
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(manager.run(stopping))
                yield client
                stopping.set()


def config_maps() -> Any:
    return importlib.import_module(f"{DOMAIN}.resources").CONFIG_MAPS


async def report_is(client: Client, text: str, *, name: str = "demo-modules") -> bool:
    try:
        report = await client.get(config_maps(), name, KCP)
    except (NotFound, NotServed):
        return False
    return bool(report.data["modules"] == text)
