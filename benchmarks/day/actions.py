"""What happens in a day: a function for each line of the script."""

import asyncio
import os
import shutil
import signal
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.day.cluster_rules import REFUSAL
from benchmarks.day.documents import INSTALLED, MANDATORY, STRATEGY, VERSIONS
from benchmarks.day.population import KCP, Population
from benchmarks.day.stage import Stage
from kube_runtime import KubeError
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_ROLLOUTS, MODULE_TEMPLATES, SECRETS
from lifecycle_manager.rollout.target import MANDATORY_CHANNEL
from lifecycle_manager_api import Kyma, ModuleRollout, names

MAX_EXPLAINED_SECONDS = 180.0
NOTICE_SECONDS = 200.0
"""After which operators undo what is halted: at 12 times the alert on Kymas in Error has fired, after 30 minutes."""
ATTACK_SECONDS = 2.0
CA = "klm-watcher"
ROTATE = f"{names.GROUP}/rotate-ca"
BACKUP = "etcd-backup"


async def joins(stage: Population, share: float, minutes: float) -> dict[str, Any]:
    """Let a share of new clusters join, spread over some minutes."""
    count = max(1, round(len(stage.joined) * share))
    for _ in range(count):
        await stage.join(1)
        await stage.pause(minutes / count)
    return {"clusters": count}


async def leaves(stage: Population, share: float, minutes: float) -> dict[str, Any]:
    """Let a share of the clusters leave, spread over some minutes; report what is left in them."""
    candidates = sorted(
        stage.joined - stage.hostile
    )  # objects that users made in a hostile one would delay it for ever
    leaving = stage.chance.sample(candidates, max(1, round(len(stage.joined) * share)))
    left: dict[str, list[str]] = {}
    for name in leaving:
        if remaining := [each for each in await stage.leave(name) if each.startswith(stage.of_modules)]:
            left[name] = remaining
        await stage.pause(minutes / len(leaving))
    return {"clusters": leaving, "left behind": left}


async def hostile_cluster(stage: Stage, seconds: float) -> dict[str, Any]:
    """Let a cluster answer slowly and edit large Module CRs from now on, on the second day as well."""
    if stage.hostile:
        return {"still": sorted(stage.hostile)}
    found = await stage.fleet.do("turn_hostile", seconds=seconds)

    async def attack() -> None:
        while True:
            await stage.fleet.do("attack")
            await asyncio.sleep(ATTACK_SECONDS)

    stage.background.append(asyncio.ensure_future(attack()))
    stage.hostile.add(found["hostile"])
    return {"cluster": found["hostile"]}


async def change_catalog(stage: Stage) -> dict[str, Any]:
    """Change the description of a module, which the catalog of every cluster has."""
    patch = {"spec": {"info": {"repository": "https://example.com/new", "documentation": "https://example.com/docs"}}}
    await stage.patch(MODULE_TEMPLATES, f"{INSTALLED[0]}-{VERSIONS[0]}", patch, by="team")
    return {}


async def release(stage: Stage, module: int, version: str) -> dict[str, Any]:
    """Release a version in waves; wait until it is completed."""
    name, began = INSTALLED[module], time.monotonic()
    await _release(stage, name, version)
    await _until_completed(stage, name, version)
    return {"seconds": round(time.monotonic() - began, 1)}


async def release_bad(stage: Stage, module: int, version: str, minutes: float) -> dict[str, Any]:
    """Release a version that every third cluster refuses; once it is halted, return to the one before.

    In a small fleet too few clusters refuse it to halt it; then that ends it which is the last to get it.
    """
    name, began = INSTALLED[module], time.monotonic()
    await _release(stage, name, version)

    async def has_failed() -> ModuleRollout | None:
        found = await _rollout(stage, name, version)
        if found is None or not found.status.failed:
            return None
        ended = found.status.phase in {"Halted", "Completed"}
        return found if ended or not any(each.waiting or each.under_way for each in found.status.waves) else None

    failed = await eventually(has_failed, every=1.0)
    halted = time.monotonic() - began
    explained = await _explained(stage, failed.status.failed_clusters[0].kyma, REFUSAL)
    await stage.pause(0, at_least=NOTICE_SECONDS)
    undone = await stage.klm("rollout", "undo", name, "--channel", "regular", "--yes")
    if undone.code:
        raise RuntimeError(f"the release can't be taken back: {undone.errors}")
    await stage.pause(minutes)
    return {
        "phase": failed.status.phase,
        "after seconds": round(halted, 1),
        "failed clusters": failed.status.failed,
        "of": failed.status.clusters,
        "explained after seconds": explained,
        "undo": undone.text.strip(),
    }


async def upgrade_mandatory(stage: Stage, version: str) -> dict[str, Any]:
    """Raise the version of the mandatory module, which goes in waves by itself, as it is a large change."""
    await stage.patch(MODULE_RELEASE_METAS, MANDATORY, {"spec": {"mandatory": {"version": version}}}, by="team")
    await _until_completed(stage, MANDATORY, version)
    return {}


async def maintenance_window(stage: Stage, module: int, version: str, minutes: float) -> dict[str, Any]:
    """Release a version with a downtime while no window is open; open one after a while, and close it in the end."""
    name = INSTALLED[module]
    kyma = next(each.metadata.name for each in (await stage.kcp.list(KYMAS, KCP)).items if _has(each, name))
    await _release(stage, name, version)
    explained = await _explained(stage, kyma, "maintenance", name)
    await stage.pause(minutes)
    early = [each.metadata.name for each in (await stage.kcp.list(KYMAS, KCP)).items if _has(each, name, version)]
    stage.write_maintenance_policy(is_open=True)
    began = time.monotonic()
    await _until_completed(stage, name, version)
    stage.write_maintenance_policy(is_open=False)
    seconds = round(time.monotonic() - began, 1)
    return {"explained after seconds": explained, "too early": early, "seconds once it is open": seconds}


async def region_unreachable(stage: Stage, minutes: float) -> dict[str, Any]:
    """Let a region answer nothing; report after how long one of its clusters is explained."""
    cut = (await stage.fleet.do("cut_off", region="region-5"))["cut_off"]
    explained = await _explained(stage, cut[0], "✗ cluster", or_else="✗ Watcher") if cut else 0.0
    await stage.pause(minutes, at_least=45)
    await stage.fleet.do("reconnect")
    return {"clusters": len(cut), "explained after seconds": explained}


async def rotate_ca(stage: Stage) -> dict[str, Any]:
    """Request another CA, and wait until the former one is not trusted any more."""
    former, began = (await stage.kcp.get(SECRETS, CA, KCP)).data["ca.crt"], time.monotonic()
    mark = {"metadata": {"annotations": {ROTATE: f"{time.time():.0f}"}}}
    await stage.patch(SECRETS, CA, mark, by="operators")

    async def is_replaced() -> bool:
        try:
            data = (await stage.kcp.get(SECRETS, CA, KCP)).data
        except KubeError:  # the control plane is restarted
            return False
        return data["ca.crt"] != former and not {"next.crt", "former.crt"} & data.keys()

    await eventually(is_replaced, every=1.0)
    return {"seconds": round(time.monotonic() - began, 1)}


async def restart_api_server(stage: Population) -> dict[str, Any]:
    """Restart the API server of the control plane."""
    began = time.monotonic()
    await stage.clusters.kcp.stop_api_server()
    await stage.clusters.kcp.start_api_server()
    return {"seconds": round(time.monotonic() - began, 1)}


async def evict_replica(stage: Stage) -> dict[str, Any]:
    """End a replica without a farewell, and start another one in its place."""
    await stage.replicas.kill(stage.replicas.running[0])
    await stage.replicas.start()
    return {}


async def upgrade_lifecycle_manager(stage: Stage) -> dict[str, Any]:
    """Replace each replica, as the chart does: first the new one is ready, then an old one is stopped."""
    for old in list(stage.replicas.running):
        await stage.replicas.start()
        await stage.replicas.stop(old)
    return {}


async def back_up(stage: Stage) -> dict[str, Any]:
    """Copy what etcd has on its disk, as a snapshot of the volume does."""
    (child,) = stage.clusters.etcd.children
    stored, copy = stage.clusters.etcd.directory / "etcd", stage.folder / BACKUP
    await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)
    os.kill(child.pid, signal.SIGSTOP)
    try:
        await asyncio.to_thread(shutil.copytree, stored, copy)
    finally:
        os.kill(child.pid, signal.SIGCONT)
    size = sum(each.stat().st_size for each in (copy / "member" / "snap").glob("db"))
    return {"MB": round(size / 2**20, 1)}


async def restore_etcd(stage: Stage) -> dict[str, Any]:
    """Restore the backup: everything in the control plane is as it was then, while Lifecycle Manager runs on.

    The revisions go on beyond those that anybody has seen, as `etcdutl snapshot restore --bump-revision
    --mark-compacted` has it. Kymas of clusters that have left since are there again, and are deleted as before.
    """
    etcd, kcp, backup = stage.clusters.etcd, stage.clusters.kcp, stage.folder / BACKUP
    if not backup.exists():
        return {"no backup": True}
    began = time.monotonic()
    async with _etcd_client(stage) as client:
        seen = await _revision(client)
    await kcp.stop_api_server()
    await etcd.stop()
    await asyncio.to_thread(shutil.rmtree, etcd.directory / "etcd")
    await asyncio.to_thread(backup.rename, etcd.directory / "etcd")
    etcd.fsync = False
    await etcd.start_again()
    async with _etcd_client(stage) as client:
        revision, put = await _revision(client), {"key": b64encode(b"/raised").decode(), "value": ""}
        restored = seen - revision
        while revision <= seen:
            written = (await client.post("/v3/kv/put", json=put)).raise_for_status().json()
            revision = int(written["header"]["revision"])
        compaction = {"revision": str(revision), "physical": True}
        (await client.post("/v3/kv/compaction", json=compaction)).raise_for_status()
    await etcd.stop()
    etcd.fsync = True
    await etcd.start_again()
    await kcp.start_api_server()
    await kcp.restart_controllers()  # the garbage collector goes by what it had seen
    seconds = round(time.monotonic() - began, 1)
    await stage.forget_those_that_left()
    return {"seconds": seconds, "revisions lost": restored}


def _etcd_client(stage: Stage) -> httpx.AsyncClient:
    url, *files = (flag.partition("=")[2] for flag in stage.clusters.etcd.client_flags)
    context = ssl.create_default_context(cafile=files[0])
    context.load_cert_chain(Path(files[1]), Path(files[2]))
    return httpx.AsyncClient(base_url=url, verify=context, trust_env=False, timeout=60)


async def _revision(client: httpx.AsyncClient) -> int:
    answer = await client.post("/v3/kv/range", json={"key": b64encode(b"/none").decode()})
    return int(answer.raise_for_status().json()["header"]["revision"])


async def mistake(stage: Stage) -> dict[str, Any]:
    """Have a user add a module that does not exist, and take it back once it is explained."""
    name = (await stage.fleet.do("edit", mistake=True))["edited"]
    if not name:
        return {"nobody": True}
    stage.touched[name].append(time.time())
    seconds = await _explained(stage, name, "module-of-no-catalog")
    await stage.fleet.do("correct", name=name)
    stage.touched[name].append(time.time())
    return {"cluster": name, "explained after seconds": seconds}


async def _explained(stage: Stage, kyma: str, expected: str, *arguments: str, or_else: str = "") -> float:
    """Wait until `klm explain` says what is wrong; return after how many seconds, infinity if not within a time."""
    began = time.monotonic()
    while time.monotonic() - began < MAX_EXPLAINED_SECONDS:
        result = await stage.klm("explain", kyma, *arguments)
        if expected in result.text or (or_else and or_else in result.text):
            return round(time.monotonic() - began, 1)
        await asyncio.sleep(2)
    print(f"{kyma} is not explained by {expected!r}:\n{result.text}{result.errors}", file=sys.__stderr__, flush=True)
    return float("inf")


async def _release(stage: Stage, module: str, version: str) -> None:
    mark = {"metadata": {"annotations": {names.ROLLOUT_STRATEGY: STRATEGY, names.ALLOW_DOWNGRADE: "true"}}}
    await stage.patch(MODULE_RELEASE_METAS, module, mark, by="operators")
    channels = [{"channel": "regular", "version": version}, {"channel": "fast", "version": VERSIONS[1]}]
    await stage.patch(MODULE_RELEASE_METAS, module, {"spec": {"channels": channels}}, by="team")


async def _rollout(stage: Stage, module: str, version: str) -> ModuleRollout | None:
    """Return the newest rollout of a version, None where there is none, or nobody can be asked."""
    try:
        found = (await stage.kcp.list(MODULE_ROLLOUTS, KCP)).items
    except KubeError:  # the control plane is restarted
        return None
    wanted = (module, MANDATORY_CHANNEL if module == MANDATORY else "regular", version)
    its = [each for each in found if (each.spec.module_name, each.spec.channel, each.spec.version) == wanted]
    return max(its, key=lambda each: each.spec.revision, default=None)


async def _until_completed(stage: Stage, module: str, version: str) -> None:
    async def is_completed() -> bool:
        found = await _rollout(stage, module, version)
        return found is not None and found.status.phase == "Completed"

    await eventually(is_completed, every=2.0)


def _has(kyma: Kyma, module: str, version: str = "") -> bool:
    return any(each.name == module and each.version.startswith(version) for each in kyma.status.modules)


ACTIONS: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    each.__name__: each
    for each in (
        joins,
        leaves,
        hostile_cluster,
        change_catalog,
        release,
        release_bad,
        upgrade_mandatory,
        maintenance_window,
        region_unreachable,
        rotate_ca,
        restart_api_server,
        evict_replica,
        upgrade_lifecycle_manager,
        back_up,
        restore_etcd,
    )
}
