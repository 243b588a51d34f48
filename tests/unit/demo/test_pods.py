"""The Pods of a program of the demo."""

from kube_runtime import Client, KubeconfigPolicy
from kube_simulation import serve_simulation
from kyma_demo.pods import PODS, PodGroup

NAMESPACE = "default"


async def test_pod_that_the_kubelet_evicted_is_none_of_a_deployment() -> None:
    """It stays with its phase, and nothing can be run in it or evicted."""
    async with serve_simulation() as simulation:
        policy = KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(simulation.cluster("one").kubeconfig, policy=policy) as client:
            for phase in ("Running", "Failed", "Succeeded", "Pending"):
                name, status = f"program-{phase.lower()}", {"status": {"phase": phase}}
                await client.create(PODS, {"metadata": {"name": name}}, NAMESPACE, field_manager="test")
                await client.merge_patch(PODS, name, status, NAMESPACE, subresource="status", field_manager="test")
            found = await PodGroup(client, NAMESPACE, "program", "program").pods()
    assert {each["metadata"]["name"] for each in found} == {"program-running", "program-pending"}
