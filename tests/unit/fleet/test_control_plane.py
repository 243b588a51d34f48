"""Clusters that are no control plane, and names that are not quite right."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, KubeconfigPolicy, Resource, dump_yaml
from kube_simulation import serve_simulation
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_CONFIGS,
    NAMESPACES,
    SYNC_RESOURCES,
)
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import names
from tests.klm import KLM, run_klm


@asynccontextmanager
async def cluster(folder: Path, *namespaces: str, without: str = "") -> AsyncIterator[tuple[Path, Client]]:
    """Yield the kubeconfig and a client of a cluster with the CRDs, but for one."""
    async with serve_simulation() as simulation:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(dump_yaml(simulation.cluster("one").kubeconfig))
        policy = KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(kubeconfig, policy=policy) as client:
            await apply_crds(client)
            if without:
                await client.delete(CUSTOM_RESOURCE_DEFINITIONS, without)
            for name in namespaces:
                await client.apply(NAMESPACES, name, {}, field_manager="test")
            yield kubeconfig, client


@pytest.mark.parametrize(
    ("command", "lacks"),
    [("get kymas", ""), ("status", ""), ("status", "watchers"), ("get rollouts", "modulerollouts")],
)
async def test_cluster_of_a_user_is_no_control_plane(tmp_path: Path, command: str, lacks: str) -> None:
    """Users' clusters have the CRDs of Kymas and of the catalog."""
    without = f"{lacks}.{names.GROUP}" if lacks else ""
    async with cluster(tmp_path, names.SKR_NAMESPACE, without=without) as (kubeconfig, _):
        result = await run_klm(kubeconfig, *command.split())
    assert (result.code, result.text) == (2, "")
    assert result.errors.startswith("klm: this is no control plane: it has no namespace kcp-system; choose another")


@pytest.mark.parametrize("command", ["status", "ui"])
async def test_control_plane_without_a_kind_says_so(tmp_path: Path, command: str) -> None:
    kind = "watchers" if command == "status" else "modulerollouts"
    async with cluster(tmp_path, names.KCP_NAMESPACE, without=f"{kind}.{names.GROUP}") as (kubeconfig, _):
        result = await run_klm(kubeconfig, command)
    unknown = rf"klm: the cluster does not know the kind {kind[:-1]} of {names.GROUP}/v1\w+; this may not be"
    assert re.match(unknown, result.errors, re.IGNORECASE)


async def test_errors_are_wrapped_on_a_terminal_and_whole_elsewhere(tmp_path: Path) -> None:
    plain = await run_klm(tmp_path / "none", "get", "kymas")
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb") as terminal, os.fdopen(theirs):
        process = await asyncio.create_subprocess_exec(
            KLM,
            "get",
            "kymas",
            stderr=theirs,
            env={**os.environ, "KUBECONFIG": str(tmp_path / "none"), "COLUMNS": "60", "NO_COLOR": "1"},
        )
        assert await process.wait() == 2
        shown = (await asyncio.to_thread(os.read, terminal.fileno(), 4096)).decode().splitlines()
    assert len(shown) > 1
    assert max(map(len, shown)) <= 60
    assert "".join(shown).replace(" ", "") == plain.errors.replace(" ", "").strip()
    assert plain.errors.count("\n") == 1


async def test_control_plane_without_kymas_is_one(tmp_path: Path) -> None:
    async with cluster(tmp_path, names.KCP_NAMESPACE) as (kubeconfig, _):
        result = await run_klm(kubeconfig, "get", "kymas")
    assert (result.code, result.errors) == (0, "klm: there are no kymas\n")


@pytest.mark.parametrize("command", [("get", "kymas"), ("explain",), ("trace",), ("events",), ("diff",)])
async def test_close_name_is_suggested(tmp_path: Path, command: tuple[str, ...]) -> None:
    module = ["keda"] if command == ("diff",) else []
    async with cluster(tmp_path, names.KCP_NAMESPACE) as (kubeconfig, client):
        for name in ("customer-4711", "demo"):
            await client.apply(KYMAS, name, {"spec": {"channel": "regular"}}, names.KCP_NAMESPACE, field_manager="test")
        close = await run_klm(kubeconfig, *command, "custmer-4711", *module)
        other = await run_klm(kubeconfig, *command, "nobody", *module)
    assert close.code == other.code == 2
    assert close.errors.endswith("; did you mean customer-4711?\n")
    assert other.errors.endswith("; klm get lists what there is\n")


@pytest.mark.parametrize(("command", "kind"), [("configs", MODULE_CONFIGS), ("syncresources", SYNC_RESOURCES)])
async def test_object_of_any_namespace_that_is_not_there_is_an_error(
    tmp_path: Path, command: str, kind: Resource[Any]
) -> None:
    async with cluster(tmp_path, names.KCP_NAMESPACE) as (kubeconfig, client):
        spec = {"kyma": "demo", "module": "keda", "resource": "{}"}
        await client.apply(kind, "demo-keda", {"spec": spec}, names.KCP_NAMESPACE, field_manager="test")
        close = await run_klm(kubeconfig, "get", command, "demo-kedda")
        filtered = await run_klm(kubeconfig, "get", command, "demo-keda", "--module", "other")
    assert (close.code, "not found (404 NotFound); did you mean demo-keda?" in close.errors) == (2, True)
    assert (filtered.code, filtered.errors) == (0, f"klm: no {command} match\n")


async def test_kyma_without_events_has_none(tmp_path: Path) -> None:
    async with cluster(tmp_path, names.KCP_NAMESPACE) as (kubeconfig, client):
        await client.apply(KYMAS, "quiet", {"spec": {"channel": "regular"}}, names.KCP_NAMESPACE, field_manager="test")
        table = await run_klm(kubeconfig, "events", "quiet")
        document = await run_klm(kubeconfig, "events", "quiet", "-o", "json")
    assert (table.code, table.text, "there are no Events of Kyma quiet" in table.errors) == (0, "", True)
    assert (document.code, json.loads(document.text)["events"]) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gte",), "Did you mean 'get'"),
        (("get", "kyams"), "did you mean kymas?"),
        (("get", "kymas", "--state", "Reddy"), "did you mean Ready?"),
        (("get", "kymas", "-o", "jsn"), "is not one of 'table', 'wide', 'json', 'yaml', 'name'"),
        (("get", "kymas", "--stat", "Ready"), "--state"),
    ],
)
async def test_word_that_is_none_is_answered_with_the_closest(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = await run_klm(tmp_path / "none", *arguments)
    assert result.code == 2
    assert said in result.errors


@pytest.mark.parametrize(("command", "unbuffered"), [("status", "1"), ("status", ""), ("--help", ""), ("crds", "")])
async def test_disk_that_can_not_be_written_is_one_line(tmp_path: Path, command: str, unbuffered: str) -> None:
    async with cluster(tmp_path, names.KCP_NAMESPACE) as (kubeconfig, _):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": unbuffered}
        full = os.open("/dev/full", os.O_WRONLY)
        running = await asyncio.create_subprocess_exec(
            KLM, command, env=environment, stdout=full, stderr=asyncio.subprocess.PIPE
        )
        os.close(full)
        _, errors = await running.communicate()
    assert (running.returncode, errors.decode()) == (2, "klm: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
async def test_closed_output_is_no_error(tmp_path: Path, closed: str) -> None:
    command = f"{KLM} check {'>&-' if closed == 'stdout' else '2>&-'}"
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none")}
    running = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await running.communicate()
    assert (running.returncode, b"Traceback" in errors) == (2, False)


async def test_crds_that_cannot_be_applied_or_written_are_an_error_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    applied = await run_klm(tmp_path / "none", "crds", "--kubeconfig", str(tmp_path / "none"))
    written = await run_klm(tmp_path / "none", "crds", "--dir", str(tmp_path / "file"))
    assert (applied.code, applied.errors.count("\n"), "; use a kubeconfig of" in applied.errors) == (2, 1, True)
    assert (written.code, written.errors.count("\n"), "File exists" in written.errors) == (2, 1, True)
