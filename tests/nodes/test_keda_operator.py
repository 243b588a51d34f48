"""KEDA itself on a real node, brought by a Module Manager: what a user sets in the Keda CR, and does with KEDA.

KEDA names the folder of the source of kedacore/keda, where `bin` has its programs:

    CGO_ENABLED=0 go build -o bin/keda ./cmd/operator
    CGO_ENABLED=0 go build -o bin/keda-adapter ./cmd/adapter
    CGO_ENABLED=0 go build -o bin/keda-admission-webhooks ./cmd/webhooks

KEDA_MANAGER names that of kyma-project/keda-manager, whose `keda.yaml` (788 kB) the Module Manager brings.
"""

from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, Forbidden, Resource
from kyma_demo import names as demo_names
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template
from tests.kinds import CLUSTER_ROLES, CRDS, DEPLOYMENTS, KEDAS, SECRETS, SERVICES, WEBHOOKS
from tests.modules import ANY_MODULE
from tests.nodes import keda_operator_manager
from tests.nodes.clusters import NodeClusters, is_ready, pods_of
from tests.nodes.go_operators import as_text, load_image, source_in
from tests.nodes.module_managers import allowed, running_manager
from tests.nodes.registry import private_registry
from tests.waiting import eventually

MODULE, VERSION = "keda", "2.20.1"
DEMO = {"name": demo_names.MODULE, "managed": True}
SKR, SECONDS = names.SKR_NAMESPACE, 180.0
PROGRAMS = ("keda", "keda-adapter", "keda-admission-webhooks")
PARTS = ("keda-operator", "keda-operator-metrics-apiserver", "keda-admission-webhooks")
SCALED: Resource[dict[str, Any]] = Resource.dynamic(
    "keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", namespaced=True
)
HPAS: Resource[dict[str, Any]] = Resource.dynamic(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True
)
MODULE_CR = {"apiVersion": KEDAS.api_version, "kind": "Keda", "metadata": {"name": "default", "namespace": SKR}}
WORKDAY = {
    "scaleTargetRef": {"name": "shop"},
    "minReplicaCount": 1,
    "triggers": [
        {
            "type": "cron",
            "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 20 * * *", "desiredReplicas": "2"},
        }
    ],
}
SHOP = {
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "shop", "image": "localhost/shop"}]},
        },
    }
}


async def test_keda_follows_its_module_cr_and_waits_for_what_users_scale(
    world: NodeClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keda, keda_manager = source_in("KEDA"), source_in("KEDA_MANAGER")
    monkeypatch.setenv(keda_operator_manager.MANIFEST, str(keda_manager / "keda.yaml"))
    skr, before = world.skr, await _left(world.skr)
    files = {each: keda / "bin" / each for each in PROGRAMS}
    await load_image(world, tmp_path, keda_operator_manager.IMAGE, files)
    await apply_objects(skr, ANY_MODULE)
    crd = _crd_of(keda_manager)
    objects = tmp_path / "objects.yaml"
    objects.write_text(as_text([crd, *keda_operator_manager.keda_objects()]))
    async with (
        allowed(world, MODULE, objects),
        private_registry(world, tmp_path) as registry,
        running_manager(world, tmp_path, keda_operator_manager),
    ):
        offered = template(MODULE, VERSION, data={**MODULE_CR, "spec": {}}, enable_module_config=True)
        await registry.put_with_login(world, await registry.filled(offered, as_text([crd])))
        await put_in_catalog(world.kcp, release(MODULE, regular=VERSION))
        await world.walkthrough.set_modules([DEMO, {"name": MODULE, "managed": True}])
        await eventually(lambda: _run(skr, PARTS), what="the Pods of KEDA", within=SECONDS)

        debug = {"spec": {"logging": {"operator": {"level": "debug"}}}}
        await skr.merge_patch(KEDAS, "default", debug, SKR, field_manager="user")
        await eventually(lambda: _runs_with(skr, "--zap-log-level=debug"), what="the log level", within=SECONDS)

        await skr.apply(DEPLOYMENTS, "shop", SHOP, SKR, field_manager="user")
        await skr.apply(SCALED, "shop", {"spec": WORKDAY}, SKR, field_manager="user")
        await eventually(lambda: _is_scaled(skr), what="what KEDA makes of it", within=SECONDS)
        refused = await eventually(lambda: _refusal(skr), what="the answer of KEDA's webhook", within=SECONDS)
        assert "is already managed by" in refused

        await world.walkthrough.set_modules([DEMO])
        await eventually(lambda: _says(skr, "ScaledObject"), what="what the removal waits for", within=SECONDS)
        assert await _run(skr, PARTS)
        await skr.delete(SCALED, "shop", SKR)
        await eventually(lambda: _leaves(skr, before), what="the end of KEDA", within=SECONDS)
    await skr.delete(DEPLOYMENTS, "shop", SKR)


def _crd_of(keda_manager: Path) -> dict[str, Any]:
    found = keda_operator_manager.objects_in(keda_manager / "bin" / "keda-manager.yaml")
    return next(each for each in found if each["metadata"]["name"] == "kedas.operator.kyma-project.io")


async def _run(skr: Client, parts: tuple[str, ...]) -> bool:
    return all([any(map(is_ready, await pods_of(skr, SKR, f"{each}-"))) for each in parts])


async def _runs_with(skr: Client, argument: str) -> bool:
    pods = [each for each in await pods_of(skr, SKR, "keda-operator-") if "metrics" not in each["metadata"]["name"]]
    return [argument in each["spec"]["containers"][0]["args"] and is_ready(each) for each in pods] == [True]


async def _refusal(skr: Client) -> str:
    """Return what KEDA says of a second one for the same Deployment; empty while its webhook can't be called."""
    try:
        await skr.apply(SCALED, "twin", {"spec": WORKDAY}, SKR, field_manager="user")
    except Forbidden as error:
        return str(error)
    await skr.delete(SCALED, "twin", SKR)
    return ""


async def _is_scaled(skr: Client) -> bool:
    """Tell whether KEDA is ready to scale the user's Deployment, by an autoscaler of its own."""
    status = (await skr.get(SCALED, "shop", SKR)).get("status", {})
    autoscalers = [each["metadata"]["name"] for each in (await skr.list(HPAS, SKR)).items]
    ready = [each["status"] for each in status.get("conditions", ()) if each["type"] == "Ready"]
    return ready == ["True"] and autoscalers == ["keda-hpa-shop"]


async def _says(skr: Client, word: str) -> bool:
    """Tell whether the user's Kyma says this word of a module."""
    return any(word in module.message for kyma in (await skr.list(KYMAS)).items for module in kyma.status.modules)


async def _left(skr: Client) -> set[tuple[str, str]]:
    """Return kind and name of what is KEDA's."""
    found = set()
    for resource in (CLUSTER_ROLES, CRDS, DEPLOYMENTS, SECRETS, SERVICES, WEBHOOKS):
        listed = await skr.list(resource, SKR if resource.namespaced else None)
        found |= {(resource.kind, each["metadata"]["name"]) for each in listed.items}
    return {each for each in found if "keda" in each[1]}


async def _leaves(skr: Client, before: set[tuple[str, str]]) -> bool:
    """Tell whether nothing of KEDA is left but the Secret of certificates, which its operator made by itself."""
    return await _left(skr) - before <= {(SECRETS.kind, "kedaorg-certs")}
