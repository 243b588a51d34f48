"""The sample for cloud resources, and the consistency of its files."""

from typing import Any

import pytest

from kube_runtime import load_yaml
from kyma_module_manager import ModuleContext, PermanentError
from kyma_module_manager.rendering import render
from kyma_module_manager.samples import sample_file
from kyma_module_manager.samples.cloud_resources import objects
from tests.unit.module_manager.configs import make_config

EXAMPLE = sample_file("cloud_resources", "example.yaml").read_text()


async def rendered(text: str = EXAMPLE) -> dict[tuple[str, str], dict[str, Any]]:
    rendering = await render(objects, ModuleContext(make_config(text)))
    return {(each["kind"], each["metadata"]["name"]): each for each in rendering.objects}


async def test_each_volume_becomes_a_persistent_volume_and_a_config_map() -> None:
    found = await rendered()

    facts = found["ConfigMap", "default-nfs-media"]["data"]
    volume = found["PersistentVolume", facts["persistentVolume"]]
    assert facts["server"] == volume["spec"]["nfs"]["server"] == "10.250.0.10"
    assert volume["spec"]["capacity"] == {"storage": "100Gi"}
    assert [kind for kind, _ in found].count("PersistentVolume") == 2


async def test_new_address_becomes_a_new_persistent_volume() -> None:
    before = await rendered()
    after = await rendered(EXAMPLE.replace("10.250.0.10", "10.250.0.11"))

    volumes = [{name for kind, name in found if kind == "PersistentVolume"} for found in (before, after)]
    assert len(volumes[0] & volumes[1]) == 1


async def test_new_capacity_changes_the_same_persistent_volume() -> None:
    before = await rendered()
    after = await rendered(EXAMPLE.replace("100Gi", "200Gi"))

    assert before.keys() == after.keys()
    assert before != after


async def test_each_peering_becomes_a_network_policy_for_pods_with_its_label() -> None:
    policy = (await rendered())["NetworkPolicy", "default-vpc-billing"]["spec"]

    assert policy["podSelector"]["matchLabels"] == {"cloud-resources.kyma-project.io/vpc-peering": "billing"}
    assert policy["egress"][0]["to"] == [{"ipBlock": {"cidr": "10.100.0.0/16"}}]
    assert [port["port"] for port in policy["egress"][0]["ports"]] == [443, 5432]


async def test_peering_with_the_whole_internet_is_a_permanent_error() -> None:
    with pytest.raises(PermanentError, match="whole internet"):
        await rendered(EXAMPLE.replace("10.100.0.0/16", "0.0.0.0/0"))


async def test_empty_infrastructure_has_no_objects() -> None:
    assert await rendered("metadata:\n  name: default\n  namespace: kyma-system\n") == {}


def test_template_release_and_crd_name_the_same_module() -> None:
    crd, template, release, policy = (
        load_yaml(sample_file("cloud_resources", name).read_text())
        for name in ("crd.yaml", "module-template.yaml", "module-release-meta.yaml", "module-policy.yaml")
    )

    default = template["spec"]["data"]
    assert policy["metadata"]["name"] == objects.module
    assert default["kind"] == crd["spec"]["names"]["kind"]
    assert default["apiVersion"] == f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
    assert template["spec"]["moduleName"] == release["spec"]["moduleName"] == objects.module
    assert template["spec"]["descriptor"]["component"]["name"] == release["spec"]["ocmComponentName"]
    assert {each["channel"] for each in release["spec"]["channels"]} == {"regular", "fast"}
    assert {each["version"] for each in release["spec"]["channels"]} == {template["spec"]["version"]}
