"""`klm join`: gives Lifecycle Manager an identity in a cluster, and registers the cluster in the control plane.

It can be run again at any time: it gives new credentials where the old ones have expired or were revoked.
"""

from kube_runtime import Client, KubeconfigInvalid, KubeconfigPolicy, KubeconfigRefused
from kube_runtime.ages import duration
from kyma_fleet.identities import FIELD_MANAGER, create_identity
from kyma_fleet.problems import Problem
from kyma_fleet.registration.plan import (
    ACCOUNT,
    ACCOUNT_NAMESPACE,
    Joining,
    kyma_document,
    roles_of,
    secret_document,
    secret_name,
)
from kyma_fleet.registration.progress import access_of, follow, kyma_named
from kyma_fleet.running import OPTIONS
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.conditions import REACHABLE
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import Kyma, find, names


async def join(kcp: Client, screen: Screen, joining: Joining) -> int:
    """Register a cluster, or renew its credentials. Returns 1 where Lifecycle Manager has not reached it in time."""
    name = joining.name
    roles, known = roles_of(joining), await kyma_named(kcp, name)
    if known is not None and known.metadata.being_deleted:
        raise Problem(f"Kyma {name} is being deleted: klm leave {name} shows the progress")
    secret = secret_name(name, await access_of(kcp, name))
    config = await _identity(kcp, screen, joining, roles)
    await kcp.apply(
        SECRETS, secret, secret_document(name, secret, config), names.KCP_NAMESPACE, field_manager=FIELD_MANAGER
    )
    lasts = duration(joining.lifetime)
    screen.print(f"Secret {names.KCP_NAMESPACE}/{secret}: a token for {lasts}, which Lifecycle Manager renews in time")
    if known is None:
        await kcp.create(KYMAS, kyma_document(joining), names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        screen.print(f"Kyma {names.KCP_NAMESPACE}/{name}: created, channel {plain(joining.channel)}")
        if not joining.any_module and not joining.roles:
            screen.print("  no module can be installed yet: --role FILE gives the rights for one, --any-module for all")
    elif joining.labels:
        patch = {"metadata": {"labels": dict(joining.labels)}}
        await kcp.merge_patch(KYMAS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        screen.print(f"Kyma {names.KCP_NAMESPACE}/{name}: labels changed")
    screen.flush()
    if await follow(kcp, screen, name, _is_reached, joining.timeout):
        screen.print(f"{name} has joined: Lifecycle Manager reaches the cluster")
        return 0
    screen.print(f"{name} is registered, but Lifecycle Manager has not reached it yet; klm explain {name} says why")
    return 1


async def _identity(kcp: Client, screen: Screen, joining: Joining, roles: tuple[object, ...]) -> str:
    """Return a kubeconfig that Lifecycle Manager may use, and that works from here."""
    async with await Client.from_environment(joining.kubeconfig, options=OPTIONS, context=joining.context) as cluster:
        if cluster.server == kcp.server:
            raise Problem(
                f"{joining.kubeconfig} leads to the control plane itself; --kubeconfig is of the cluster that joins, "
                "--kcp-kubeconfig of the control plane"
            )
        config = await create_identity(
            cluster,
            joining.kubeconfig,
            name=ACCOUNT,
            namespace=ACCOUNT_NAMESPACE,
            roles=roles,  # type: ignore[arg-type]
            lifetime=joining.lifetime,
            context=joining.context,
            server=joining.server,
        )
        version = await cluster.server_version()
    try:
        await (await Client.from_kubeconfig(config, policy=KubeconfigPolicy.strict())).close()
    except (KubeconfigInvalid, KubeconfigRefused) as error:
        raise Problem(f"Lifecycle Manager can't use the cluster of {joining.kubeconfig}: {error}") from None
    screen.print(f"cluster {joining.server or cluster.server}, {plain(version)}")
    screen.print(f"ServiceAccount {ACCOUNT_NAMESPACE}/{ACCOUNT}: {len(roles)} roles")
    return config


def _is_reached(kyma: Kyma | None) -> bool:
    if kyma is None or kyma.status.observed_generation != kyma.metadata.generation:
        return False
    reachable = find(kyma.status.conditions, REACHABLE)
    return reachable is not None and reachable.status == "True"
