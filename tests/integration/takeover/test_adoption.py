"""`klm adopt` takes a control plane over and gives it back, as an administrator runs it."""

import json
from typing import Any

from lifecycle_manager.resources import SECRETS
from lifecycle_manager_api import names
from tests.integration.takeover import seeding
from tests.integration.takeover.conftest import KCP, World
from tests.klm import Output, run_klm

ACCESS = f"kubeconfig-{seeding.KYMA}"


async def klm(world: World, *arguments: str) -> Output:
    return await run_klm(world.clusters.kcp.admin_kubeconfig, "adopt", *arguments)


async def test_check_reports_what_there_is_and_what_becomes_of_it(world: World) -> None:
    unlabelled = {"metadata": {"labels": {names.MANAGED_BY: None}}}
    await world.kcp.merge_patch(SECRETS, ACCESS, unlabelled, KCP, field_manager="administrator")
    await seeding.write(world.kcp, "deployment", world.seed)

    told = await klm(world, "--check", "--sample", "1", "-o", "json")

    assert told.code == 0, told.text + told.errors
    found: dict[str, Any] = json.loads(told.text)
    assert found["inTheWay"] == []
    assert [each["name"] for each in found["former"]] == ["klm-controller-manager"]
    counts = {"kymas": 1, "manifests": 1, "accessSecrets": 1, "accessSecretsWithoutLabel": 1, "certificates": 1}
    assert {each: found["counts"][each] for each in counts} == counts
    assert {each["given"]: each["becomes"] for each in found["options"]} == {
        "--leader-elect": "--leader-elect",
        "--kyma-requeue-success-interval": "--kyma-requeue-success-interval=5m",
        "--istio-gateway-name": "--istio-gateway-name=klm-watcher",
        "--listener-port-overwrite": "",
        "--cert-management": "--cert-management=cert.gardener.cloud/v1alpha1",
        "--log-level": "--log-level=DEBUG",
    }
    (cluster,) = found["clusters"]
    expected = {"moved": 5, "missing": 0, "foreign": 0, "replaced": 5, "removed": 5, "catalog": 2, "error": ""}
    assert {each: cluster[each] for each in expected} == expected


async def test_check_is_readable(world: World) -> None:
    told = await klm(world, "--check", "--sample", "1")
    assert told.lines[0].split() == ["WHAT", "FOUND", "WITH", "THIS", "VERSION"]
    assert "nothing is in the way" in told.lines
    assert "klm adopt labels them: others are not read" in told.text
