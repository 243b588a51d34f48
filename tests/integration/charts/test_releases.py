"""The life of a release: upgraded and rolled back during changes of users, killed, removed and installed again."""

import asyncio
import base64
import itertools
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kube_runtime import Invalid, Resource
from kube_runtime.leases.membership import GROUP_LABEL
from kube_runtime.leases.rendezvous import rendezvous
from kyma_demo.names import USER
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_fleet.identities import SERVICE_ACCOUNTS
from kyma_local.helm import TIMEOUT_SECONDS, WAITING, HelmFailed
from kyma_module_manager.controller import LEADER
from kyma_module_manager.rights import lease_namespace_of
from lifecycle_manager.contract.resources import (
    KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from tests.integration.charts.clusters import HelmClusters
from tests.integration.charts.helm import (
    LIFECYCLE_MANAGER,
    MODULE_MANAGER,
    SKR_WATCHER,
    WAYS,
    expressions_in,
)
from tests.kinds import CRDS
from tests.node_agent.agent import NodeAgent
from tests.node_agent.pod import PodRun
from tests.serving import WITHOUT_TLS
from tests.waiting import eventually

PARTS = ("configmaps", "deployments.apps", "networkpolicies.networking.k8s.io", "services", "serviceaccounts")
METRIC_NAMES = re.compile(r"\b(?:lifecycle_mgr|controller_runtime|workqueue|kube_runtime|rest_client)_\w+")
WITHOUT_SAMPLES = frozenset(
    {
        "lifecycle_mgr_skr_event_path_broken",
        "lifecycle_mgr_deletions_held",
        "lifecycle_mgr_self_signed_cert_not_renew",
        "lifecycle_mgr_mandatory_manifests",
        "lifecycle_mgr_rollout_clusters",
        "lifecycle_mgr_rollout_phase",
    }
)
"""Metrics without samples while there are no faults, mandatory modules or rollouts; other tests check their labels."""
FROM_PROMETHEUS = frozenset({"job", "instance", "le"})
LEASES: Resource[dict[str, Any]] = Resource.dynamic("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


async def test_change_of_a_user_is_applied_by_the_installed_releases(world: HelmClusters) -> None:
    await world.walkthrough.change_volume("110Gi")
    await world.walkthrough.change_volume("120Gi")


async def test_invalid_sync_resource_is_refused_through_the_service_of_the_chart(world: HelmClusters) -> None:
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

    async def refusal() -> str:
        """Return the refusal of the API server; empty if the webhook did not answer in time."""
        try:
            await world.kcp.apply(
                SYNC_RESOURCES, "greedy", document, names.KCP_NAMESPACE, field_manager="test", dry_run=True
            )
        except Invalid as error:
            return str(error)
        return ""

    assert "ConfigMap kube-system/x: spec.namespaces: " in await eventually(refusal)


async def test_no_change_is_lost_while_the_release_is_upgraded_and_rolled_back(world: HelmClusters) -> None:
    before = await _ready(world.kcp_node, "lifecycle-manager", 2)
    async with _changing(world):
        await world.install_lifecycle_manager("--set=logLevel=DEBUG", command="upgrade")
        await eventually(partial(_all_have, world, "--log-level=DEBUG"))
    assert [run.child and run.child.returncode for run in before] == [0, 0]

    async with _changing(world):
        await world.kcp_helm.run("rollback", "lifecycle-manager", "--namespace=kcp-system", *WAITING)
        await eventually(partial(_all_have, world, "--log-level=INFO"))


async def test_no_change_is_lost_while_the_replicas_are_killed_one_after_the_other(world: HelmClusters) -> None:
    for run in await _ready(world.kcp_node, "lifecycle-manager", 2):
        assert run.child is not None
        restarts = run.restarts
        async with _changing(world):
            await run.child.kill()
            await eventually(partial(_is_back, run, restarts))


async def test_no_change_is_lost_when_a_replica_is_lost_with_its_node(world: HelmClusters) -> None:
    """Each of the two replicas is lost once, so the one that has the Kyma is lost, too."""
    for run in await _ready(world.kcp_node, "lifecycle-manager", 2):
        async with _changing(world):
            await run.lose()
            await eventually(partial(_replaced, world, run))


async def test_no_change_is_lost_while_the_leading_module_manager_is_killed(world: HelmClusters) -> None:
    replicas = {run.name: run for run in await _ready(world.kcp_node, "cloud-resources", 2)}
    leader = await eventually(lambda: _leader_of(world, "module-manager-cloud-resources", replicas=2))
    child = replicas[leader.rpartition("-")[0]].child
    assert child is not None

    async def taken_over() -> bool:
        """Tell whether another process leads: of the other Pod, or the next one of the same Pod."""
        return await _leader_of(world, "module-manager-cloud-resources", replicas=1) not in {"", leader}

    async with _changing(world):
        await child.kill()
        await eventually(taken_over)


async def test_no_change_is_lost_while_the_watcher_is_upgraded(world: HelmClusters) -> None:
    """Its new image is pulled with the secrets of its ServiceAccount."""
    image, secret = "registry.example.com/kyma/skr-watcher:next", {"name": "of-the-registry"}
    (before,) = await _ready(world.skr_node, None, 1)
    await _pull_watchers_with(world, secret)

    def replaced() -> bool:
        return [run.pod["spec"]["containers"][0]["image"] for run in world.skr_node.runs if run.ready] == [image]

    async with _changing(world):
        await world.install_lifecycle_manager(f"--set=watcher.image={image}", command="upgrade")
        await eventually(replaced)
        await eventually(lambda: before not in world.skr_node.runs)
    assert before.child is not None
    assert before.child.returncode == 0
    (after,) = await _ready(world.skr_node, None, 1)
    assert after.pod["spec"]["imagePullSecrets"] == [secret]

    await _pull_watchers_with(world)
    await world.install_lifecycle_manager("--set=watcher.memoryLimit=212Mi", command="upgrade")
    (pod,) = await eventually(partial(_only_watcher_with, world, "212Mi"))
    assert not pod["spec"].get("imagePullSecrets")


async def test_alerts_and_dashboards_use_metrics_that_the_running_program_has(world: HelmClusters) -> None:
    rendered = await world.kcp_helm.render(LIFECYCLE_MANAGER, *WAYS["lifecycle-manager-with-everything"][1])
    samples: dict[str, set[str]] = {}

    async def has_a_sample(name: str) -> bool:
        """Tell whether the metric has a sample; it may have none before the program has counted anything."""
        if not samples.get(name):
            await _add_metrics_of_lifecycle_manager(world, samples)
        return bool(samples.get(name))

    metrics_by_expression = {
        expression: set(METRIC_NAMES.findall(expression)) for expression in expressions_in(rendered)
    }
    asked = {"rest_client_requests_total"}.union(*metrics_by_expression.values())
    for name in sorted(asked - WITHOUT_SAMPLES):
        await eventually(partial(has_a_sample, name), what=f"a sample of {name}")
    assert asked.union(METRIC_NAMES.findall(_text_of_runbooks())) <= samples.keys()
    assert samples["rest_client_requests_total"] == {"code", "method", "host"}
    for expression, metrics in metrics_by_expression.items():
        if all(samples[name] for name in metrics):
            assert _labels_in(expression) <= FROM_PROMETHEUS.union(*(samples[name] for name in metrics)), expression


async def test_watcher_installed_by_hand_delivers_with_a_certificate_of_the_control_plane(world: HelmClusters) -> None:
    file = await _values_by_hand(world)
    release = ("by-hand", "--namespace=kyma-system", *WAITING)
    await world.kcp_helm.run("install", *release, "--create-namespace", "--values", str(file), str(SKR_WATCHER))
    (run,) = (run for run in world.kcp_node.runs if run.namespace == "kyma-system")

    async def delivered() -> bool:
        """Tell whether an event was accepted; the first one may fail while the endpoint is slow."""
        samples = [sample for family in await _metrics_of(run) for sample in family.samples]
        sent, failed = (
            sum(sample.value for sample in samples if sample.name == name)
            for name in ("watcher_kcp_requests_total", "watcher_failed_kcp_total")
        )
        return sent > failed

    await eventually(delivered)
    await world.kcp_helm.run("uninstall", *release)
    assert await _objects_of(world, "kyma-system") == []


async def test_watcher_installed_by_hand_replaces_the_existing_one_until_it_is_removed(world: HelmClusters) -> None:
    file = await _values_by_hand(world)
    release = ("by-hand", "--namespace=kyma-system", *WAITING)
    install = ("install", *release, "--values", str(file), str(SKR_WATCHER))
    with pytest.raises(HelmFailed, match="invalid ownership metadata"):
        await world.skr_helm.run(*install)
    await world.skr_helm.run(*install, "--take-ownership", "--force-conflicts")
    await world.walkthrough.change_volume("240Gi")

    removed = set(world.skr_node.runs)
    await world.skr_helm.run("uninstall", *release)
    await eventually(lambda: not removed & set(world.skr_node.runs))
    # Lifecycle Manager would notice that at its interval; changed settings are applied at once.
    await world.install_lifecycle_manager("--set=watcher.memoryLimit=201Mi", command="upgrade")
    await eventually(partial(_only_watcher_with, world, "201Mi"))
    await world.walkthrough.change_volume("250Gi")


async def test_module_manager_gets_another_role_and_leaves_no_objects_behind(world: HelmClusters) -> None:
    guestbook = str(MODULE_MANAGER / "ci/guestbook-values.yaml")
    arguments = ("guestbook", "--namespace=kcp-system", *WAITING)
    await world.kcp_helm.run("install", *arguments, "--values", guestbook, str(MODULE_MANAGER))
    assert await _ready(world.kcp_node, "guestbook", 2)
    another = "--set=lifecycleManager.clusterRole=of-another-release"
    await world.kcp_helm.run("upgrade", *arguments, "--values", guestbook, another, str(MODULE_MANAGER))
    await world.kcp_helm.run("uninstall", *arguments)
    assert await _objects_of(world, "kcp-system", "app.kubernetes.io/instance=guestbook") == []
    await eventually(lambda: not world.kcp_node.runs_of("guestbook"))


async def test_uninstallation_keeps_crds_and_kymas_and_a_later_installation_adopts_them(world: HelmClusters) -> None:
    await world.walkthrough.change_volume("300Gi")
    await world.kcp_helm.run("uninstall", "lifecycle-manager", "--namespace=kcp-system", *WAITING)
    assert await _objects_of(world, "kcp-system", "app.kubernetes.io/instance=lifecycle-manager") == []
    for crd in all_crds():
        assert await world.kcp.get(CRDS, crd["metadata"]["name"])
    kyma = await world.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    assert kyma.metadata.deletion_timestamp is None
    assert await world.skr.get(CONFIG_MAPS, "default-nfs-media", names.SKR_NAMESPACE)
    await eventually(lambda: not world.kcp_node.runs_of("lifecycle-manager"))

    await world.install_lifecycle_manager()
    await world.walkthrough.change_volume("310Gi")


@asynccontextmanager
async def _changing(world: HelmClusters) -> AsyncGenerator[None, None]:
    """Let the user change an object again and again during the block; at the end the last change has to be in force."""
    stopping = asyncio.Event()

    async def change() -> str:
        for number in itertools.count(1000):
            await world.walkthrough.patch_volume(f"{number}Gi")
            if stopping.is_set():
                return f"{number}Gi"
            await asyncio.sleep(0.2)  # the rate of a user; more takes the machine from what is upgraded
        raise AssertionError("unreachable: itertools.count never ends")

    await world.walkthrough.change_volume("999Gi")
    async with asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(change())
        yield
        stopping.set()
    await world.walkthrough.wait_for_volume(changing.result())


async def _values_by_hand(world: HelmClusters) -> Path:
    """Return a file with the values that an administrator reads from the control plane, as in docs/install.md."""
    pair = await world.kcp.get(SECRETS, "demo-webhook-tls", names.KCP_NAMESPACE)
    pem = {key: base64.b64decode(text).decode() for key, text in pair.data.items()}
    tls = {
        "existingSecret": False,
        "certificate": pem["tls.crt"],
        "key": pem["tls.key"],
        "ca": pem["ca.crt"],
    }
    values = {"kcpAddress": f"127.0.0.1:{world.event_port}", "caBundle": pem["ca.crt"], "tls": tls}
    file = world.kcp_helm.home / "by-hand.json"
    file.write_bytes(msgspec.json.encode(values))
    return file


async def _pull_watchers_with(world: HelmClusters, *secrets: dict[str, str]) -> None:
    """Have the images of Pods that are created from now on pulled with these secrets, as a user."""
    patch = {"imagePullSecrets": list(secrets)}
    await world.skr.merge_patch(SERVICE_ACCOUNTS, "skr-webhook", patch, names.SKR_NAMESPACE, field_manager=USER)


def _only_watcher_with(world: HelmClusters, memory: str) -> list[dict[str, Any]]:
    """Return the only Pod of the Watcher if it is ready and has this memory limit; otherwise none."""
    pods = [run.pod for run in world.skr_node.runs if run.ready]
    limits = [pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods]
    return pods if limits == [memory] and len(world.skr_node.runs) == 1 else []


async def _ready(node: NodeAgent, release: str | None, replicas: int) -> tuple[PodRun, ...]:
    """Return the Pods of a release, or all Pods of a node, once their number is right and all are ready: after an
    upgrade, Pods that it replaces may still be running."""

    def settled() -> tuple[PodRun, ...]:
        runs = node.runs if release is None else node.runs_of(release)
        return runs if [run.ready and not run.stopping.is_set() for run in runs] == [True] * replicas else ()

    return await eventually(settled, what=f"{replicas} ready Pods of {release or 'the node'}, and no others")


def _is_back(run: PodRun, restarts: int) -> bool:
    return run.restarts > restarts and run.ready


def _all_have(world: HelmClusters, argument: str) -> bool:
    """Tell whether the Lifecycle Manager has two Pods, both with an argument."""
    runs = world.kcp_node.runs_of("lifecycle-manager")
    return len(runs) == 2 and all(argument in run.pod["spec"]["containers"][0]["args"] for run in runs)


def _replaced(world: HelmClusters, gone: PodRun) -> bool:
    """Tell whether the Lifecycle Manager has two ready Pods again, without the lost one."""
    runs = world.kcp_node.runs_of("lifecycle-manager")
    return gone not in runs and [run.ready for run in runs] == [True, True]


async def _leader_of(world: HelmClusters, group: str, *, replicas: int) -> str:
    """Return the identity of the member that leads a group; empty while it has fewer members than replicas."""
    namespace = lease_namespace_of("cloud-resources")
    leases = (await world.kcp.list(LEASES, namespace, label_selector=f"{GROUP_LABEL}={group}")).items
    members = tuple(str(lease["spec"]["holderIdentity"]) for lease in leases)
    return rendezvous(LEADER, members) or "" if len(members) >= replicas else ""


async def _add_metrics_of_lifecycle_manager(world: HelmClusters, samples: dict[str, set[str]]) -> None:
    """Add the names of the metrics of the running replicas, each with the labels of its samples."""
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
    for run in world.kcp_node.runs_of("lifecycle-manager"):
        for family in await _metrics_of(run):
            for suffix in suffixes.get(family.type, ("",)):
                samples.setdefault(f"{family.name}{suffix}", set())
            for sample in family.samples:
                samples.setdefault(sample.name, set()).update(sample.labels or {""})


async def _metrics_of(run: PodRun) -> list[Metric]:
    """Return the metrics of a program; none if it is starting or has ended."""
    if run.process is None:
        return []
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False, timeout=TIMEOUT_SECONDS) as client:
            answer = await client.get(f"http://127.0.0.1:{run.process.port('metrics')}/metrics")
            return list(text_string_to_metric_families(answer.text))
    return []


def _labels_in(expression: str) -> set[str]:
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    chosen = re.findall(r"[{,]\s*(\w+)=", expression)
    return {label.strip() for labels in grouped for label in labels.split(",")} | set(chosen)


async def _objects_of(world: HelmClusters, namespace: str, selector: str | None = None) -> list[str]:
    remaining: list[str] = []
    for plural in PARTS:
        name, _, group = plural.partition(".")
        resource: Resource[dict[str, Any]] = Resource.dynamic(
            group, "v1", name.removesuffix("s"), name, namespaced=True
        )
        found = (await world.kcp.list(resource, namespace, label_selector=selector)).items
        remaining.extend(f"{plural}/{each['metadata']['name']}" for each in found)
    return [each for each in remaining if not each.endswith(("/kube-root-ca.crt", "/default"))]


def _text_of_runbooks() -> str:
    return "".join(path.read_text() for path in Path("docs/runbooks").iterdir())
