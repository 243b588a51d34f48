"""The Watcher's certificate and its CA are replaced in a Secret that a kubelet mounts, and updates when it likes."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from prometheus_client.parser import text_string_to_metric_families

from kube_runtime import Client
from kyma_demo import names as demo_names
from kyma_demo.pods import LIFECYCLE_MANAGER
from kyma_local.helm import WAITING
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.watcher_certificates.ca_store import CA_SECRET, ROTATE
from lifecycle_manager_api import names
from tests.nodes.clusters import NodeClusters, kubectl, pods_of
from tests.users import Users, changing
from tests.waiting import eventually

IN_FORCE_SECONDS = 10.0  # reconciles at intervals are minutes apart
UPDATE_SECONDS = 150.0  # the kubelet's sync period, and its cache
GRACE_SECONDS = 100  # longer than a kubelet takes
MANY_USERS = 8
CALLED, PASSED_BY = "apiserver_admission_webhook_request_total", "apiserver_admission_webhook_fail_open_count"


async def totals(client: Client, target: str, *metrics: str) -> tuple[float, ...]:
    """Return the sums of metrics, 0 for one without samples."""
    text = (await client.raw("GET", target, accept="text/plain")).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return tuple(sum(sample.value for sample in samples if sample.name == name) for name in metrics)


async def mounted(world: NodeClusters) -> bytes:
    """Return the certificate, with the trusted CAs, that is mounted into the Watcher's Pod."""
    (pod,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    read = "print(open('/tls/tls.crt').read() + open('/tls/ca.crt').read(), end='')"
    execute = (f"--namespace={names.SKR_NAMESPACE}", "exec", pod["metadata"]["name"], "--", "python3", "-c", read)
    return (await kubectl(world.clusters.skrs[0].admin_kubeconfig, *execute)).encode()


async def issued(world: NodeClusters) -> bytes:
    """Return the same of its Secret."""
    data = (await world.skr.get(SECRETS, "skr-webhook-tls", names.SKR_NAMESPACE)).data
    return b64decode(data["tls.crt"]) + b64decode(data["ca.crt"])


@asynccontextmanager
async def nothing_missed(world: NodeClusters, *, users: int) -> AsyncGenerator[Users, None]:
    """Have users make changes, and check that each was reported by the Pod that was there before."""
    (pod,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    name = pod["metadata"]["name"]
    metrics = f"/api/v1/namespaces/{names.SKR_NAMESPACE}/pods/{name}:2112/proxy/metrics"

    async def lost() -> tuple[float, ...]:
        called, passed_by = await totals(world.skr, "/metrics", CALLED, PASSED_BY)
        assert called
        return (
            passed_by,
            *await totals(world.skr, metrics, "watcher_admission_request_shed_total", "watcher_failed_kcp_total"),
        )

    async with changing(world.walkthrough, within=IN_FORCE_SECONDS, users=users) as working:
        before = await lost()
        yield working
    assert await lost() == before
    (after,) = await pods_of(world.skr, names.SKR_NAMESPACE, "skr-webhook")
    assert after["metadata"]["name"] == name, "the Watcher need not restart for it"


async def test_no_change_is_missed_while_the_certificate_is_renewed(world: NodeClusters) -> None:
    async with nothing_missed(world, users=1):
        former = await issued(world)
        other_name = {"metadata": {"annotations": {names.SKR_DOMAIN: "renewed.example.com"}}}
        await world.kcp.merge_patch(KYMAS, demo_names.KYMA, other_name, names.KCP_NAMESPACE, field_manager="test")

        async def renewed() -> bool:
            now = await issued(world)
            return now != former and await mounted(world) == now

        await eventually(renewed, what="the renewed certificate in the Pod", within=UPDATE_SECONDS, every=1)


async def test_no_change_is_missed_while_the_ca_is_rotated(
    world: NodeClusters, record_property: Callable[[str, object], None]
) -> None:
    arguments = world.pods.lifecycle_manager_arguments()
    grace = f"--set=options.self-signed-ca-rotation-grace={GRACE_SECONDS}s"
    await world.pods.helm.run("upgrade", LIFECYCLE_MANAGER, *arguments, grace, *WAITING)

    async def trusted() -> bytes:
        return b64decode((await world.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)).data["ca.crt"])

    former = await trusted()
    async with nothing_missed(world, users=MANY_USERS) as users:
        rotate = {"metadata": {"annotations": {ROTATE: "now"}}}
        await world.kcp.merge_patch(SECRETS, CA_SECRET, rotate, names.KCP_NAMESPACE, field_manager="test")

        async def rotated() -> bool:
            now = await trusted()
            return former not in now and (await mounted(world)).endswith(now)

        await eventually(rotated, what="another CA", within=2 * GRACE_SECONDS + 2 * UPDATE_SECONDS, every=1)
    record_property("changes in force", users.summary)
