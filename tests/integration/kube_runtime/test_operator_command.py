"""The operator with children of the README, run by `kube-runtime run` as a user would."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml

from kube_runtime import Applier, Client, NotFound, NotServed, Resource, dump_yaml, parse_objects
from kube_runtime.cli import main
from kube_runtime.leases.lease import LEASES
from kyma_local.clusters import LocalClusters
from lifecycle_manager_api.pod_security import pod_template_of, violated_rules
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

EXAMPLES = re.findall(r"```python\n(.*?)```", Path("libraries/kube_runtime/README.md").read_text(), re.DOTALL)
AS_IN_OPENSHIFT = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
COMMAND = Path(sys.executable).with_name("kube-runtime")
PAGES = Resource.dynamic("pages.example.com", "v1", "Page", "pages", namespaced=True)


async def test_operator_of_the_readme_repairs_a_deleted_child(
    client: Client, kcp: Path, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "operator.py"
    (example,) = (each for each in EXAMPLES if "@operator.reconciles" in each)
    file.write_text(example)
    assert len([line for line in example.splitlines() if line]) <= 25
    crds = await asyncio.to_thread(_crds_of, file)
    (await Applier(client, field_manager="test").apply(parse_objects(crds), (), prune=False)).raise_first_failure()
    options = ("--kubeconfig", str(kcp), "--namespace", namespace, "--leader-elect", "--lease-namespace", namespace)
    process = await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=PIPE)
    try:
        await client.create(PAGES, {"metadata": {"name": "one"}, "spec": {"text": "hi"}}, namespace, field_manager="me")
        first = await _child(client, namespace, text="hi", unlike="")
        await client.delete(CONFIG_MAPS, "one", namespace)
        second = await _child(client, namespace, text="hi", unlike=first)
        await client.merge_patch(PAGES, "one", {"spec": {"text": "bye"}}, namespace)
        assert await _child(client, namespace, text="bye", unlike=first) == second

        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0, errors.decode()
    lines = [msgspec.json.decode(line) for line in errors.splitlines()]
    assert "started" in [line["msg"] for line in lines]


MARKING = """
import os
from kube_runtime import Resource
from kube_runtime.operator import Operator

CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
operator = Operator("marking")

@operator.reconciles(CONFIG_MAPS)
async def reconcile(item, owner):
    if "by" not in item.get("data", {}) and item["metadata"]["name"].startswith("mark"):
        document = {"data": {"by": str(os.getpid())}}
        await owner.manager.client.apply(CONFIG_MAPS, owner.key.name, document, owner.key.namespace, field_manager="m")
"""


SPEAKING = """
import time
from typing import ClassVar
from kube_crds import CustomResource, Struct
from kube_runtime.operator import Operator

operator = Operator("speaking")

class Word(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "speaking.example.com"

class Status(Struct, frozen=True, kw_only=True):
    said: bool = True

@operator.reconciles(Word)
async def say(word, owner):
    if word.metadata.name == "slow":
        time.sleep(3)
    elif word.metadata.name == "status":
        await owner.write_status(Status())
    else:
        raise KeyError("a mistake")
"""


async def test_operator_says_what_it_does_and_what_is_to_be_done(
    client: Client, kcp: Path, namespace: str, tmp_path: Path
) -> None:
    file, log = tmp_path / "speaking.py", tmp_path / "log"
    file.write_text(SPEAKING)
    line = SPEAKING.splitlines().index("        time.sleep(3)") + 1
    words = Resource.dynamic("speaking.example.com", "v1", "Word", "words", namespaced=True)
    options = ("--kubeconfig", kcp, "--namespace", namespace, "--log-format", "text")
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=written)
    try:
        await eventually(lambda: "Word of speaking.example.com/v1; is its CRD applied?" in log.read_text())
        crds = parse_objects(await asyncio.to_thread(_crds_of, file))
        (await Applier(client, field_manager="test").apply(crds, (), prune=False)).raise_first_failure()
        await eventually(lambda: "started" in log.read_text())
        for name in ("broken", "status", "slow"):
            await client.create(words, {"metadata": {"name": name}}, namespace, field_manager="me")
        await eventually(lambda: "/broken failed (3 in a row): KeyError: 'a mistake'" in log.read_text())
        await eventually(lambda: f"blocked at {file}:{line} in say" in log.read_text())
        await eventually(lambda: "has no status subresource: declare `status` in its class" in log.read_text())
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
    lines = log.read_text()
    assert process.returncode == 0
    assert f"speaking reconciles Word (speaking.example.com/v1) in the namespace {namespace}" in lines
    assert lines.count("Traceback") == 1


@pytest.mark.parametrize(("option", "at_work"), [("--leader-elect", 1), ("--shards", 2)])
async def test_replicas_are_led_by_one_or_share_the_objects_and_replace_one_that_ends(
    client: Client, kcp: Path, namespace: str, tmp_path: Path, option: str, at_work: int
) -> None:
    file = tmp_path / "operator.py"
    file.write_text(MARKING)
    options = (option, "--kubeconfig", str(kcp), "--namespace", namespace, "--lease-namespace", namespace)
    replicas = [await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=DEVNULL) for _ in range(2)]

    async def marked(*names: str) -> set[str]:
        """Have objects marked, and return by which processes they were."""
        for name in names:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace, field_manager="me")

        async def by() -> set[str] | None:
            found = [(await client.get(CONFIG_MAPS, name, namespace)).get("data", {}).get("by", "") for name in names]
            return set(found) if all(found) else None

        return await eventually(by)

    async def both_have_joined() -> bool:
        return len((await client.list(LEASES, namespace)).items) == 2

    try:
        await eventually(both_have_joined)
        first = await eventually(partial(_settled_on, at_work, marked))
        (ended,) = (each for each in replicas if str(each.pid) == min(first))
        ended.send_signal(signal.SIGTERM)
        assert await ended.wait() == 0
        (left,) = (each for each in replicas if each is not ended)
        assert await marked("mark-late-1", "mark-late-2") == {str(left.pid)}
    finally:
        for each in replicas:
            if each.returncode is None:
                each.kill()
                await each.wait()


async def _settled_on(at_work: int, marked: Callable[..., Awaitable[set[str]]]) -> set[str] | None:
    """Return which processes have marked new objects once they are as many as expected."""
    found = await marked(*(f"mark-{uuid.uuid4().hex[:8]}" for _ in range(12)))
    return found if len(found) == at_work else None


def test_option_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "unused_operator.py"
    file.write_text(MARKING)
    assert main(["run", str(file), "--shards"]) == 2
    assert "outside of a Pod, --leader-elect and --shards need --lease-namespace" in capsys.readouterr().err


async def test_busy_port_is_one_line_with_its_address(kcp: Path, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "operator.py"
    file.write_text(MARKING)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        options = ("--kubeconfig", kcp, "--namespace", namespace, "--probes", address, "--log-level", "error")
        process = await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=PIPE)
        _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert [line for line in errors.decode().splitlines() if address not in line] == []


@pytest.mark.parametrize("words", [["--help"], ["new", "--help"], ["crds", "--help"], ["run", "--help"]])
def test_help_of_each_command_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(words)
    assert done.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {' '.join(['kube-runtime', *words[:-1]])} ")


def test_tests_of_a_new_project_pass_and_its_manifest_has_what_the_operator_needs(tmp_path: Path) -> None:
    run = partial(subprocess.run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run([COMMAND, "new", "Bad_Name"]).returncode == 2
    made = run([COMMAND, "new", "web-pages"])
    assert (made.returncode, made.stderr) == (0, "")
    assert run([COMMAND, "new", "web-pages"]).stderr == "error: web-pages is not empty\n"

    tested = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "web-pages")
    assert (tested.returncode, tested.stdout[:2]) == (0, ". "), tested.stdout + tested.stderr
    (crd,) = parse_objects(_crds_of(tmp_path / "web-pages/web_pages_operator.py"))
    named = crd.document["spec"]["names"]
    assert (named["kind"], named["plural"]) == ("WebPage", "webpages")
    assert "resources: [webpages, webpages/status]" in (tmp_path / "web-pages/manifest.yaml").read_text()
    manifest = parse_objects((tmp_path / "web-pages/manifest.yaml").read_text())
    pods = pod_template_of("apps", "Deployment", manifest[-1].document)
    assert pods is not None
    assert not list(violated_rules(pods, "restricted"))
    kinds = [each.document["kind"] for each in manifest]
    assert kinds == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment"]


async def test_new_project_works_with_the_rights_of_its_manifest(tmp_path: Path) -> None:
    async with (
        LocalClusters.start(skrs=0, flags=AS_IN_OPENSHIFT) as clusters,
        await Client.from_environment(clusters.kcp.admin_kubeconfig) as client,
    ):
        await _run_new_project(client, clusters.kcp.admin_kubeconfig, tmp_path)


async def _run_new_project(client: Client, kcp: Path, tmp_path: Path) -> None:
    new = await asyncio.create_subprocess_exec(COMMAND, "new", "tea-pots", cwd=tmp_path, stdout=DEVNULL)
    assert await new.wait() == 0
    file = tmp_path / "tea-pots/tea_pots_operator.py"
    manifest = parse_objects((file.parent / "manifest.yaml").read_text())
    crds = parse_objects(await asyncio.to_thread(_crds_of, file))
    applied = await Applier(client, field_manager="test").apply((*crds, *manifest), (), prune=False)
    applied.raise_first_failure()

    config = yaml.safe_load(await asyncio.to_thread(kcp.read_text))
    config["users"][0]["user"]["as"] = "system:serviceaccount:default:tea-pots"
    (tmp_path / "kubeconfig").write_text(dump_yaml(config))
    options = ("--kubeconfig", tmp_path / "kubeconfig", "--leader-elect", "--lease-namespace", "default")
    process = await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=PIPE)
    tea_pots = Resource.dynamic("tea-pots.example.com", "v1", "TeaPot", "teapots", namespaced=True)

    async def applied_text() -> bool:
        try:
            child = await client.get(CONFIG_MAPS, "one", "default")
        except NotFound:
            return False
        return bool(child["data"] == {"text": "hi"})

    try:
        pot = {"metadata": {"name": "one"}, "spec": {"text": "hi"}}
        await client.create(tea_pots, pot, "default", field_manager="me")
        await eventually(applied_text)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    levels = {msgspec.json.decode(line)["level"] for line in errors.splitlines()}
    assert (process.returncode, levels) == (0, {"info"}), errors.decode()


def test_modules_and_packages_beside_the_file_are_imported_wherever_it_is_run(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (example,) = (each for each in EXAMPLES if "@operator.reconciles" in each)
    (tmp_path / "beside.py").write_text(example)
    (tmp_path / "parts/__init__.py").write_text("from beside import operator as the_operator")
    (tmp_path / "whole.py").write_text("from parts import the_operator")
    (tmp_path / "elsewhere").mkdir()
    assert parse_objects(_crds_of(Path("whole.py"), cwd=tmp_path))
    assert parse_objects(_crds_of(tmp_path / "whole.py", cwd=tmp_path / "elsewhere"))


def _crds_of(file: Path, cwd: Path | None = None) -> str:
    return subprocess.run([COMMAND, "crds", file], check=True, capture_output=True, text=True, cwd=cwd).stdout


async def _child(client: Client, namespace: str, *, text: str, unlike: str) -> str:
    """Return the uid of the child once it has a text and is another one."""
    found = ""

    async def there() -> bool:
        nonlocal found
        try:
            child = await client.get(CONFIG_MAPS, "one", namespace)
        except (NotFound, NotServed):
            return False
        (owner,) = child["metadata"]["ownerReferences"]
        found = child["metadata"]["uid"]
        return (found != unlike, child["data"], owner["kind"]) == (True, {"index.html": text}, "Page")

    await eventually(there)
    return found
