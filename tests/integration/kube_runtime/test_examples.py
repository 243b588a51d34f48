"""Each of the examples on a real API server: what kopf's examples show, done here."""

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube_crds import crd_of
from kube_runtime import (
    Applier,
    Client,
    Manager,
    ManagerOptions,
    NotFound,
    NotServed,
    Resource,
    dump_yaml,
    parse_objects,
)
from kube_runtime.command import load_operator
from tests.kinds import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICE_ACCOUNTS
from tests.waiting import eventually, is_gone

FOLDER = Path("libraries/kube_runtime/examples")
POD = {"containers": [{"name": "one", "image": "one"}]}
Logged = Callable[[str], Awaitable[object]]


class Running:
    """An example that runs, and the objects of its kind."""

    def __init__(self, client: Client, namespace: str, kind: Resource[Any] | None) -> None:
        self.client, self.namespace, self._kind = client, namespace, kind

    @property
    def kind(self) -> Resource[Any]:
        assert self._kind is not None
        return self._kind

    async def create(self, spec: dict[str, Any], name: str = "one", **metadata: Any) -> Any:
        document = {"metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(self.kind, document, self.namespace, field_manager="user")

    async def change(self, spec: dict[str, Any], name: str = "one") -> None:
        await self.client.merge_patch(self.kind, name, {"spec": spec}, self.namespace)

    async def delete(self, name: str = "one") -> None:
        await self.client.delete(self.kind, name, self.namespace)
        await eventually(lambda: is_gone(self.client.get(self.kind, name, self.namespace)))

    async def status(self, expected: dict[str, Any], name: str = "one") -> None:
        async def reached() -> bool:
            document = await self.client.get(Resource.dynamic(*_place(self.kind)), name, self.namespace)
            return bool(document.get("status") == expected)

        await eventually(reached, what=f"the status {expected}")

    async def config_map(self, name: str, data: dict[str, str], **metadata: Any) -> None:
        document = {"metadata": {"name": name, **metadata}, "data": data}
        await self.client.apply(CONFIG_MAPS, name, document, self.namespace, field_manager="user")

    async def has_names(self, kind: Resource[Any], expected: set[str]) -> None:
        async def reached() -> bool:
            found = (await self.client.list(kind, self.namespace)).items
            return {each["metadata"]["name"] for each in found} - {"kube-root-ca.crt"} == expected

        await eventually(reached, what=f"{kind.plural} are {expected}")

    async def has_event(self, reason: str, note: str) -> None:
        async def recorded() -> bool:
            found = (await self.client.list(EVENTS, self.namespace)).items
            return any((each["reason"], each["note"]) == (reason, note) for each in found)

        await eventually(recorded, what=f"the Event {reason}: {note}")


def _place(kind: Resource[Any]) -> tuple[str, str, str, str, bool]:
    return kind.group, kind.version, kind.kind, kind.plural, kind.namespaced


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    caplog.set_level(logging.INFO)

    async def contains(text: str) -> None:
        await eventually(lambda: text in caplog.text, what=f"the log line {text!r}")

    return contains


@asynccontextmanager
async def example(name: str, client: Client, namespace: str) -> AsyncIterator[Running]:
    """Run an example as `kube-runtime run` does, with its CRD, in a namespace."""
    operator = load_operator(FOLDER / f"{name}.py")
    await client.apply(SERVICE_ACCOUNTS, "default", {}, namespace, field_manager="test")  # which Pods have
    crds = "---\n".join(dump_yaml(crd_of(kind)) for kind in operator.kinds)
    applier = Applier(client, field_manager="test")
    (await applier.apply(parse_objects(crds), (), prune=False)).raise_first_failure()
    manager, stopping = Manager(client, ManagerOptions(name=operator.name), namespace=namespace), asyncio.Event()
    operator.setup(manager)
    running = asyncio.create_task(manager.run(stopping))
    kinds = operator.kinds
    try:
        yield Running(client, namespace, Resource.of(*kinds) if kinds else None)
    finally:
        stopping.set()
        await running


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text()
    assert [file.name for file in FOLDER.glob("*.py") if f'"{file.stem}' not in text] == []


async def test_minimal(client: Client, namespace: str) -> None:
    async with example("minimal", client, namespace) as running:
        await running.create({})
        await running.status({"message": "hello world"})
        await running.change({"name": "moon"})
        await running.status({"message": "hello moon"})


async def test_children(client: Client, namespace: str) -> None:
    async with example("children", client, namespace) as running:
        await running.create({"seconds": 60})
        await running.status({"phase": "Pending"})
        first = await client.get(PODS, "one", namespace)
        assert [each["kind"] for each in first["metadata"]["ownerReferences"]] == ["Task"]
        await client.delete(PODS, "one", namespace)

        async def again() -> bool:
            try:
                pod = await client.get(PODS, "one", namespace)
            except (NotFound, NotServed):
                return False
            return bool(pod["metadata"]["uid"] != first["metadata"]["uid"])

        await eventually(again)


async def test_errors(client: Client, namespace: str) -> None:
    async with example("errors", client, namespace) as running:
        await running.create({"kilograms": 31}, "heavy")
        await running.status({"state": "refused"}, "heavy")
        await running.create({"kilograms": 3})
        await running.status({"state": "waiting"})
        await running.config_map("depot", {"open": "false"})
        await running.config_map("depot", {"open": "true"})
        await running.status({"state": "sent"})
        await running.change({"kilograms": 30}, "heavy")
        await running.status({"state": "sent"}, "heavy")


async def test_events(client: Client, namespace: str) -> None:
    async with example("events", client, namespace) as running:
        await running.create({})
        await running.has_event("Empty", "there is no water in it")
        await running.change({"litres": 1.5})
        await running.has_event("Boiled", "1.5 l are hot")


async def test_changes_are_found_also_after_the_operator_did_not_run(client: Client, namespace: str) -> None:
    async with example("changes", client, namespace) as running:
        await running.create({"colour": "red"})
        await running.has_event("Lit", "it is red")
        await running.status({"colour": "red"})
    await running.change({"colour": "green"})
    async with example("changes", client, namespace) as running:
        await running.has_event("Recoloured", "red became green")
        await running.status({"colour": "green"})
        await running.delete()
        await running.has_event("Darkened", "it was green")


async def test_items(client: Client, namespace: str) -> None:
    async with example("items", client, namespace) as running:
        await running.create({"books": ["ivanhoe", "emma"]})
        await running.has_names(CONFIG_MAPS, {"one-emma", "one-ivanhoe"})
        await running.status({"books": ["emma", "ivanhoe"]})
        await running.change({"books": ["utopia", "ivanhoe"]})
        await running.status({"books": ["ivanhoe", "utopia"]})
        await running.has_names(CONFIG_MAPS, {"one-ivanhoe", "one-utopia"})
        at_rest = await client.get(running.kind, "one", namespace)
        await running.create({"books": ["dune"]}, "two")
        await running.has_names(CONFIG_MAPS, {"one-ivanhoe", "one-utopia", "two-dune"})
        assert await client.get(running.kind, "one", namespace) == at_rest


async def test_watching(client: Client, namespace: str, logged: Logged) -> None:
    async with example("watching", client, namespace):
        await client.create(SECRETS, {"metadata": {"name": "one"}}, namespace, field_manager="user")
        await logged("created: Secret one")
        await client.merge_patch(SECRETS, "one", {"metadata": {"labels": {"a": "b"}}}, namespace)
        await logged("changed: Secret one")
        await client.delete(SECRETS, "one", namespace)
        await logged("deleted: Secret one")


async def test_pods(client: Client, namespace: str) -> None:
    async with example("pods", client, namespace):
        for name, labels in {"mayfly": {"pods.example.com/lives-seconds": "1"}, "tortoise": {}}.items():
            document = {"metadata": {"name": name, "labels": labels}, "spec": POD}
            await client.create(PODS, document, namespace, field_manager="user")
        await eventually(lambda: is_gone(client.get(PODS, "mayfly", namespace)))
        assert (await client.get(PODS, "tortoise", namespace))["metadata"]["name"] == "tortoise"


async def test_filters(client: Client, namespace: str, logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    async with example("filters", client, namespace) as running:
        await running.config_map("plain", {"colour": "red"})
        await running.config_map("wet", {"colour": "red"}, labels={"paint": "wet"})
        await running.config_map("dry", {"colour": "red"}, labels={"paint": "dry"})
        await running.config_map("drawn", {}, annotations={"example.com/sketch": ""})
        for name, labels in {"safe": {"paint": "dry"}, "bare": {}}.items():
            document = {"metadata": {"name": name, "labels": labels}}
            await client.create(SECRETS, document, namespace, field_manager="user")
        for text in ("wet is wet and red", "dry is painted", "drawn is a sketch", "safe is a painted Secret"):
            await logged(text)
    assert "plain is" not in caplog.text
    assert "bare is" not in caplog.text


async def test_embedded(kcp: Path, namespace: str) -> None:
    arguments = (FOLDER / "embedded.py", kcp, namespace)
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, stderr=PIPE)
    printed, errors = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, printed) == (0, b"answered\n"), errors.decode()


async def test_hooks_in_a_program_of_its_own(kcp: Path) -> None:
    command = Path(sys.executable).with_name("kube-runtime")
    arguments = ("run", FOLDER / "hooks.py", "--kubeconfig", kcp, "--log-format", "text")
    process = await asyncio.create_subprocess_exec(command, *arguments, stderr=PIPE)
    assert process.stderr is not None
    lines = b""
    async with asyncio.timeout(60):
        while b"before the start: Kubernetes v1." not in lines or b" namespaces" not in lines:
            line = await process.stderr.readline()
            assert line, lines.decode()
            lines += line
        process.send_signal(signal.SIGTERM)
        lines += await process.stderr.read()
        assert await process.wait() == 0, lines.decode()
    assert b"cleaned up" in lines


async def test_background(client: Client, namespace: str, logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    async with example("background", client, namespace) as running:
        await running.create({"seconds": 0.01})
        await eventually(lambda: caplog.text.count("one measures") > 2)
        await running.change({"seconds": 0.02})
        await logged("one stopped")
        await running.delete()
        assert caplog.text.count("one stopped") == 2


async def test_timers(client: Client, namespace: str, logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    async with example("timers", client, namespace) as running:
        await running.create({})
        await eventually(lambda: caplog.text.count("one says tick") > 1)
        await running.change({"sound": "tock"})
        await logged("one says tock")


async def test_index(client: Client, namespace: str) -> None:
    async with example("index", client, namespace) as running:
        await running.create({"app": "web"})
        for name, app in {"one": "web", "two": "web", "three": "other"}.items():
            document = {"metadata": {"name": name, "labels": {"app": app}}, "spec": POD}
            await client.create(PODS, document, namespace, field_manager="user")
        await running.status({"pods": 2})
