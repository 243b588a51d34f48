"""`klm leave`: takes a cluster out of the fleet, with its modules or without them, and removes what `klm join` made.

With `keep_modules` Lifecycle Manager has to lose its access before the Kyma is deleted, or it would remove the modules.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from kube_runtime import Applier, Client, NotFound
from kyma_fleet.identities import remove_identity
from kyma_fleet.problems import Problem
from kyma_fleet.registration.accounts import (
    ACCOUNT,
    ACCOUNT_NAMESPACE,
    access_of,
    account_in,
    account_of,
    of_cluster,
    other_kyma,
)
from kyma_fleet.registration.progress import follow, kyma_named
from kyma_fleet.running import OPTIONS
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.conditions import REACHABLE
from lifecycle_manager.contract.resources import KYMAS, SECRETS, Secret
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager.skr.token import is_renewed
from lifecycle_manager.skr_webhook.documents import INVENTORY
from lifecycle_manager_api import Kyma, find, names

_NOTHING_CHANGED = "nothing changed. Without --kubeconfig, the ServiceAccount stays"


@dataclass(frozen=True, slots=True)
class Leaving:
    """What an operator asked for: `kubeconfig` and `context` are of an administrator of the cluster that leaves."""

    name: str
    kubeconfig: Path | None = None
    context: str | None = None
    keep_modules: bool = False
    timeout: timedelta = timedelta(minutes=10)


async def leave(kcp: Client, screen: Screen, leaving: Leaving, confirm: Callable[[str], bool]) -> int:
    """Remove a cluster from the fleet. Returns 1 where Lifecycle Manager has not finished in time."""
    name = leaving.name
    kyma, access = await kyma_named(kcp, name), await access_of(kcp, name)
    if kyma is None and not access and leaving.kubeconfig is None:
        raise Problem(f"there is no Kyma {name}; klm get kymas lists them")
    async with AsyncExitStack() as stack:
        cluster: Client | None = None
        if leaving.kubeconfig is not None:
            with of_cluster(leaving.kubeconfig):
                connected = await Client.from_environment(leaving.kubeconfig, options=OPTIONS, context=leaving.context)
            cluster = await stack.enter_async_context(connected)
            await _require_same_cluster(kcp, cluster, leaving, access)
        question = _question(kyma, cluster, keep_modules=leaving.keep_modules)
        if question and not confirm(question):
            raise Problem("not confirmed; nothing changed. Use --yes")
        if kyma is not None:
            if leaving.keep_modules:
                await _withdraw(kcp, screen, leaving, access)
            if not await _delete_kyma(kcp, screen, kyma, leaving):
                return 1
        await _delete_access(kcp, screen, access)
        with of_cluster(leaving.kubeconfig):
            await _clean(cluster, screen, leaving)
    return 0


async def _require_same_cluster(kcp: Client, cluster: Client, leaving: Leaving, access: tuple[Secret, ...]) -> None:
    """Raise Problem where the ServiceAccount in a cluster is not that of the Kyma, or that of another Kyma, too."""
    where = f"{leaving.kubeconfig} leads to {cluster.server}"
    with of_cluster(leaving.kubeconfig):
        uid = await account_in(cluster)
    own = {account_of(each) for each in access} - {""}
    if own and uid not in own:
        raise Problem(f"{where}, which is not the cluster of Kyma {leaving.name}; {_NOTHING_CHANGED}")
    if other := await other_kyma(kcp, uid, leaving.name):
        raise Problem(f"{where}, the cluster of Kyma {plain(other)}; {_NOTHING_CHANGED}")


def _question(kyma: Kyma | None, cluster: Client | None, *, keep_modules: bool) -> str:
    if kyma is None:
        return f"remove ServiceAccount {ACCOUNT_NAMESPACE}/{ACCOUNT} from {cluster.server}?" if cluster else ""
    modules = ", ".join(plain(each.name) for each in kyma.status.modules) or "none"
    what = "its modules stay there, and nobody manages them" if keep_modules else "its modules are removed from it"
    return f"remove cluster {kyma.metadata.name} from the fleet? {what} ({modules})"


async def _withdraw(kcp: Client, screen: Screen, leaving: Leaving, access: tuple[Secret, ...]) -> None:
    """Take the access from Lifecycle Manager, and wait until it has taken note. Raises Problem where it has not."""
    foreign = [each.metadata.name for each in access if not is_renewed(each)]
    if foreign:
        raise Problem(f"Secret {foreign[0]} in {names.KCP_NAMESPACE} is not of klm join: delete it first")
    await _delete_access(kcp, screen, access)

    def has_no_access(kyma: Kyma | None) -> bool:
        reachable = find(kyma.status.conditions, REACHABLE) if kyma is not None else None
        return kyma is None or (reachable is not None and reachable.reason == AccessSecretMissing.reason)

    if not await follow(kcp, screen, leaving.name, has_no_access, leaving.timeout):
        raise Problem(
            "Lifecycle Manager has not noticed that its access is gone, and might still remove modules: the Kyma was "
            f"not deleted; klm status shows its replicas, klm join {leaving.name} --kubeconfig FILE gives access again"
        )


async def _delete_kyma(kcp: Client, screen: Screen, kyma: Kyma, leaving: Leaving) -> bool:
    """Delete the Kyma, and wait until it is gone with all that belongs to it."""
    name, uid = leaving.name, kyma.metadata.uid
    try:
        await kcp.delete(KYMAS, name, names.KCP_NAMESPACE, uid=uid)
    except NotFound:
        return True
    gone = await follow(kcp, screen, name, lambda found: found is None or found.metadata.uid != uid, leaving.timeout)
    if gone:
        screen.print(f"Kyma {names.KCP_NAMESPACE}/{name}: deleted")
    else:
        screen.print(f"Kyma {name} is still being deleted: run this again to wait on; klm explain {name} says for what")
        if not leaving.keep_modules:
            screen.print("  if the cluster is gone for good, --keep-modules waits for nothing in it")
    return gone


async def _delete_access(kcp: Client, screen: Screen, access: tuple[Secret, ...]) -> None:
    for each in access:
        where = f"Secret {names.KCP_NAMESPACE}/{each.metadata.name}"
        if not is_renewed(each):
            screen.print(f"{where}: stays, because it is not of klm join")
            continue
        try:
            await kcp.delete(SECRETS, each.metadata.name, names.KCP_NAMESPACE, uid=each.metadata.uid)
        except NotFound:
            continue
        screen.print(f"{where}: deleted")


async def _clean(cluster: Client | None, screen: Screen, leaving: Leaving) -> None:
    """Remove what is left in the cluster, or say how."""
    if cluster is None:
        screen.print(f"in the cluster, ServiceAccount {ACCOUNT_NAMESPACE}/{ACCOUNT} and its roles are left:")
        screen.print(f"  klm leave {leaving.name} --kubeconfig FILE removes them")
        return
    if leaving.keep_modules:
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        watcher = await Applier(cluster, field_manager="klm", labels=labels).delete(INVENTORY)
        watcher.raise_first_failure()
        screen.print("in the cluster, the Watcher: deleted")
    for each in await remove_identity(cluster, name=ACCOUNT, namespace=ACCOUNT_NAMESPACE):
        screen.print(f"in the cluster, {plain(each)}: deleted")
