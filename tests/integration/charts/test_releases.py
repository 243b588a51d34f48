"""Releases over their life: upgraded and rolled back under a stream of changes, killed, removed and installed again."""

import asyncio
import base64
import itertools
import json
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from kube_runtime import Invalid, Resource
from lifecycle_manager.resources import KYMAS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from local.demo.witness import CONFIG_MAPS
from tests.integration.charts.helm import LIFECYCLE_MANAGER, MODULE_MANAGER, SKR_WATCHER, WAYS, of_kind
from tests.integration.charts.world import World
from tests.waiting import eventually

PARTS = ("configmaps", "deployments.apps", "networkpolicies.networking.k8s.io", "services", "serviceaccounts")
CRDS: Resource[dict[str, Any]] = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
LEASES: Resource[dict[str, Any]] = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


async def test_users_change_goes_through_what_helm_installed(world: World) -> None:
    await world.story.change_volume("110Gi")
    await world.story.change_volume("120Gi")


async def test_bad_sync_resource_is_refused_by_way_of_the_charts_service(world: World) -> None:
    document = {
        "apiVersion": SYNC_RESOURCES.api_version,
        "kind": "SyncResource",
        "metadata": {"name": "greedy", "namespace": names.KCP_NAMESPACE},
        "spec": {
            "kyma": "demo",
            "module": "cloud-resources",
            "resource": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: kube-system}}",
        },
    }
    with pytest.raises(Invalid, match="system namespace"):
        await world.kcp.apply(SYNC_RESOURCES, "greedy", document, names.KCP_NAMESPACE, field_manager="test")


async def test_no_change_is_lost_while_the_release_is_upgraded_and_rolled_back(world: World) -> None:
    (before,) = world.kcp_node.runs_of("lifecycle-manager")
    async with _changing(world):
        await world.install_lifecycle_manager("--set=logLevel=DEBUG", command="upgrade")
    (upgraded,) = world.kcp_node.runs_of("lifecycle-manager")
    assert before.child is not None
    assert before.child.returncode == 0
    assert "--log-level=DEBUG" in upgraded.pod["spec"]["containers"][0]["args"]

    async with _changing(world):
        await world.kcp_helm.run("rollback", "lifecycle-manager", "1", "--namespace=kcp-system", "--wait")
    (rolled_back,) = world.kcp_node.runs_of("lifecycle-manager")
    assert "--log-level=INFO" in rolled_back.pod["spec"]["containers"][0]["args"]


async def test_no_change_is_lost_while_the_program_is_killed(world: World) -> None:
    (run,) = world.kcp_node.runs_of("lifecycle-manager")
    restarts = run.restarts
    assert run.child is not None
    async with _changing(world):
        await run.child.kill()
        await eventually(lambda: run.restarts > restarts and run.ready)


async def test_no_change_is_lost_while_the_module_manager_that_works_is_killed(world: World) -> None:
    replicas = {run.name: run for run in world.kcp_node.runs_of("cloud-resources")}
    assert len(replicas) == 2
    working = await eventually(lambda: _holder_of(world, "module-manager-cloud-resources"))
    child = replicas[working].child
    assert child is not None
    (other,) = replicas.keys() - {working}

    async def taken_over() -> bool:
        return await _holder_of(world, "module-manager-cloud-resources") == other

    async with _changing(world):
        await child.kill()
        await eventually(taken_over, within=40)


async def test_no_change_is_lost_while_the_watcher_is_upgraded(world: World) -> None:
    image = "registry.example.com/kyma/skr-watcher:next"
    (before,) = world.skr_node.runs

    def replaced() -> bool:
        return [run.pod["spec"]["containers"][0]["image"] for run in world.skr_node.runs if run.ready] == [image]

    async with _changing(world):
        await world.install_lifecycle_manager(f"--set=watcher.image={image}", command="upgrade")
        await eventually(replaced, within=40)
        await eventually(lambda: before not in world.skr_node.runs, within=40)
    assert before.child is not None
    assert before.child.returncode == 0


async def test_alerts_and_dashboard_ask_for_metrics_that_the_running_program_has(world: World) -> None:
    rendered = await world.kcp_helm.render(LIFECYCLE_MANAGER, *WAYS["lifecycle-manager-with-everything"][1])
    (rules,) = of_kind(rendered, "PrometheusRule").values()
    (dashboard,) = of_kind(rendered, "ConfigMap").values()
    panels = msgspec.json.decode(dashboard["data"]["lifecycle-manager.json"])["panels"]
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    names_asked_for = re.compile(r"\b(?:lifecycle_mgr|controller_runtime|workqueue|kube_runtime|rest_client)_\w+")
    asked = {name for expression in expressions for name in names_asked_for.findall(expression)}
    assert len(asked) > 12
    assert asked - await _metrics_of_lifecycle_manager(world) == set()


async def test_release_of_the_previous_commits_chart_is_upgraded(world: World, tmp_path: Path) -> None:
    previous = _previous_chart(tmp_path)
    await world.install_lifecycle_manager(command="upgrade", chart=previous)
    await world.story.change_volume("210Gi", within=30)
    await world.install_lifecycle_manager(command="upgrade")
    await world.story.change_volume("220Gi", within=30)


async def test_programs_ask_for_nothing_that_the_charts_do_not_allow(world: World) -> None:
    refused: Counter[tuple[str, str, str]] = Counter()
    asked: Counter[str] = Counter()
    for cluster in (world.clusters.kcp, *world.clusters.skrs):
        for line in (cluster.directory / "audit.log").read_text().splitlines():
            event = json.loads(line)
            user = event["user"]["username"]
            if not user.startswith("system:serviceaccount:"):
                continue
            asked[user.rpartition(":")[2]] += 1
            if event.get("responseStatus", {}).get("code") == 403:
                refused[user, event["verb"], event["requestURI"].partition("?")[0]] += 1
    assert not refused
    assert {"lifecycle-manager", "cloud-resources-module-manager"} <= set(asked)


async def test_watcher_by_hand_delivers_with_a_certificate_of_the_control_plane(world: World) -> None:
    pair = await world.kcp.get(SECRETS, "demo-webhook-tls", names.KCP_NAMESPACE)
    pem = {key: base64.b64decode(text).decode() for key, text in pair.data.items()}
    values = {
        "kcpAddress": f"127.0.0.1:{world.event_port}",
        "caBundle": pem["ca.crt"],
        "tls": {
            "existingSecret": False,
            "certificate": pem["tls.crt"],
            "key": pem["tls.key"],
            "authority": pem["ca.crt"],
        },
    }
    file = world.kcp_helm.home / "by-hand.json"
    file.write_bytes(msgspec.json.encode(values))
    release = ("by-hand", "--namespace=kyma-system", "--wait", "--timeout=60s")
    await world.kcp_helm.run("install", *release, "--create-namespace", "--values", str(file), str(SKR_WATCHER))
    (run,) = (run for run in world.kcp_node.runs if run.namespace == "kyma-system")
    assert run.process is not None
    port = run.process.port("metrics")

    async def delivered() -> bool:
        async with httpx.AsyncClient(trust_env=False) as client:
            lines = (await client.get(f"http://127.0.0.1:{port}/metrics")).text.splitlines()
        assert not [line for line in lines if line.startswith("watcher_failed_kcp_total{")]
        return any(line.startswith("watcher_kcp_requests_total") and not line.endswith(" 0.0") for line in lines)

    await eventually(delivered)
    await world.kcp_helm.run("uninstall", *release)
    assert await _left_of(world, "kyma-system") == []


async def test_module_manager_leaves_nothing_behind(world: World) -> None:
    guestbook = str(MODULE_MANAGER / "ci/guestbook-values.yaml")
    arguments = ("guestbook", "--namespace=kcp-system", "--wait", "--timeout=60s")
    await world.kcp_helm.run("install", *arguments, "--values", guestbook, str(MODULE_MANAGER))
    assert [run.ready for run in world.kcp_node.runs_of("guestbook")] == [True, True]
    await world.kcp_helm.run("uninstall", *arguments)
    assert await _left_of(world, "kcp-system", "app.kubernetes.io/instance=guestbook") == []
    await eventually(lambda: not world.kcp_node.runs_of("guestbook"))


async def test_removal_leaves_crds_and_kymas_and_a_later_installation_takes_them_over(world: World) -> None:
    await world.story.change_volume("300Gi", within=30)
    await world.kcp_helm.run("uninstall", "lifecycle-manager", "--namespace=kcp-system", "--wait")
    assert await _left_of(world, "kcp-system", "app.kubernetes.io/instance=lifecycle-manager") == []
    for crd in all_crds():
        assert await world.kcp.get(CRDS, crd["metadata"]["name"])
    kyma = await world.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    assert kyma.metadata.deletion_timestamp is None
    assert await world.skr.get(CONFIG_MAPS, "default-nfs-media", names.SKR_NAMESPACE)
    await eventually(lambda: not world.kcp_node.runs_of("lifecycle-manager"))

    await world.install_lifecycle_manager()
    await world.story.change_volume("310Gi", within=30)


@asynccontextmanager
async def _changing(world: World) -> AsyncGenerator[None, None]:
    """Have the user change things all the while, and see the last change in force though none comes after it."""
    stopping = asyncio.Event()

    async def change() -> str:
        for number in itertools.count(1000):
            await world.story.patch_volume(f"{number}Gi")
            if stopping.is_set():
                return f"{number}Gi"
            await asyncio.sleep(0.05)  # a user's pace
        raise AssertionError("numbers do not end")

    await world.story.change_volume("999Gi", within=30)
    async with asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(change())
        yield
        stopping.set()
    await world.story.sees_volume(changing.result(), within=20)


async def _holder_of(world: World, lease: str) -> str:
    """Return the Pod that holds a Lease; empty where none does."""
    found = await world.kcp.get(LEASES, lease, names.KCP_NAMESPACE)
    return str(found["spec"].get("holderIdentity", "")).rpartition("_")[0]


async def _metrics_of_lifecycle_manager(world: World) -> set[str]:
    """Return the names of what the running program tells Prometheus."""
    (run,) = world.kcp_node.runs_of("lifecycle-manager")
    assert run.process is not None
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"http://127.0.0.1:{run.process.port('metrics')}/metrics")).text
    suffixes = {"histogram": ("_bucket", "_count", "_sum")}
    return {
        f"{name}{suffix}"
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
        for suffix in suffixes.get(kind, ("",))
    }


async def _left_of(world: World, namespace: str, selector: str | None = None) -> list[str]:
    """Return what is left of a release in a namespace of KCP."""
    left: list[str] = []
    for plural in PARTS:
        name, _, group = plural.partition(".")
        resource: Resource[dict[str, Any]] = Resource.dynamic(
            group, "v1", name.removesuffix("s"), name, namespaced=True
        )
        found = (await world.kcp.list(resource, namespace, label_selector=selector)).items
        left.extend(f"{plural}/{each['metadata']['name']}" for each in found)
    return [each for each in left if not each.endswith(("/kube-root-ca.crt", "/default"))]


def _previous_chart(folder: Path) -> Path:
    """Return the chart as the last commit before the present one that changed it has it."""
    path = f"charts/{LIFECYCLE_MANAGER.name}"
    log = subprocess.run(["git", "rev-list", "-n2", "HEAD", "--", path], capture_output=True, text=True, check=False)
    commits = log.stdout.split()
    if len(commits) < 2:
        pytest.skip("this checkout has no earlier commit of the chart")
    packed = subprocess.run(["git", "archive", commits[1], path], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    chart = folder / path
    if not (chart / "Chart.yaml").exists():
        pytest.skip("the previous commit has no chart yet")
    return chart
