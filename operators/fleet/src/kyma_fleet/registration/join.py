"""`klm join`: gives Lifecycle Manager an identity in a cluster, and registers the cluster in the control plane.

It can be run again at any time: it gives new credentials where the old ones have expired or were revoked. First what is
written, in pure functions, then the command.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from kube_runtime import (
    AlreadyExists,
    Client,
    KubeconfigInvalid,
    KubeconfigPolicy,
    KubeconfigRefused,
    ManifestInvalid,
    parse_objects,
)
from kube_runtime.ages import duration
from kyma_fleet.identities import FIELD_MANAGER, create_identity, kubeconfig_for
from kyma_fleet.problems import Problem
from kyma_fleet.registration.accounts import ACCOUNT, ACCOUNT_NAMESPACE, access_of, account_in, of_cluster, other_kyma
from kyma_fleet.registration.progress import follow, kyma_named
from kyma_fleet.running import OPTIONS
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.conditions import REACHABLE
from lifecycle_manager.contract.resources import KYMAS, SECRETS, Secret
from lifecycle_manager.skr.token import MAX_LIFETIME, MIN_LIFETIME, TokenUnusable, is_renewed, token_in
from lifecycle_manager_api import Kyma, find, names

MAX_NAME_LENGTH = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RBAC = files("lifecycle_manager.rbac")
_ROLE_KINDS = ("ClusterRole", "Role")


@dataclass(frozen=True, slots=True)
class Joining:
    """What an operator asked for.

    - `kubeconfig`, `context`: of an administrator of the cluster that joins
    - `server`: its address as Lifecycle Manager reaches it, if it is another one
    - `roles`: files with the roles for objects of modules; `any_module` allows all of them
    - `timeout`: how long to wait until Lifecycle Manager has reached it
    """

    name: str
    kubeconfig: Path
    context: str | None = None
    server: str = ""
    labels: Mapping[str, str] | None = None
    channel: str = "regular"
    modules: tuple[str, ...] = ()
    roles: tuple[Path, ...] = ()
    any_module: bool = False
    lifetime: timedelta = timedelta(hours=72)
    timeout: timedelta = timedelta(minutes=2)


def checked_name(name: str) -> str:
    """Return the name of a Kyma. Raises Problem for one that it can't have: it is also the value of labels."""
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise Problem(
            f"invalid name of a Kyma {name!r}: expected a-z, 0-9, - and ., the first and last a letter or digit, "
            f"at most {MAX_NAME_LENGTH}"
        )
    return name


def labels_of(given: Iterable[str]) -> dict[str, str]:
    """Return labels that were given as `name=value`. Raises Problem."""
    pairs = [each.partition("=") for each in given]
    wrong = [name for name, sign, _ in pairs if not (name and sign)]
    if wrong:
        raise Problem(f"{wrong[0]!r} is no label: expected name=value, such as {names.REGION}=eu-central-1")
    return {name: value for name, _, value in pairs}


def checked_lifetime(lifetime: timedelta) -> timedelta:
    """Return the lifetime of a token. Raises Problem for one that no API server grants."""
    if not MIN_LIFETIME <= lifetime <= MAX_LIFETIME:
        raise Problem("--token-lifetime is from 10m to 8760h")
    return lifetime


def roles_of(joining: Joining) -> tuple[Mapping[str, Any], ...]:
    """Return the roles that Lifecycle Manager gets in the cluster. Raises Problem for a file without any."""
    own = ["skr.yaml", "skr-token.yaml", *(["skr-modules.yaml"] if joining.any_module else [])]
    found = [each.document for name in own for each in parse_objects(_RBAC.joinpath(name).read_text())]
    for file in joining.roles:
        try:
            objects = parse_objects(file.read_bytes())
        except (OSError, ManifestInvalid) as error:
            raise Problem(f"{file}: {error}") from None
        if not objects or any(each.document["kind"] not in _ROLE_KINDS for each in objects):
            raise Problem(f"{file}: expected ClusterRoles and Roles, and nothing else")
        found += [each.document for each in objects]
    return tuple(found)


def kyma_document(joining: Joining) -> dict[str, Any]:
    """Return the Kyma of a new cluster."""
    modules = [{"name": each, "managed": True} for each in joining.modules]
    metadata = {"name": joining.name, "namespace": names.KCP_NAMESPACE, "labels": dict(joining.labels or {})}
    return {"metadata": metadata, "spec": {"channel": joining.channel, "modules": modules}}


def secret_document(kyma: str, known: Secret | None, kubeconfig: str) -> dict[str, Any]:
    """Return the access Secret, whose token Lifecycle Manager renews."""
    labels = {names.KYMA_NAME: kyma, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    metadata: dict[str, Any] = {"labels": labels, "annotations": {names.RENEW_TOKEN: "true"}}
    metadata |= {"name": known.metadata.name, "uid": known.metadata.uid} if known else {"name": f"kubeconfig-{kyma}"}
    return {"metadata": metadata, "data": {"config": base64.b64encode(kubeconfig.encode()).decode()}}


def own_secret(kyma: str, access: Iterable[Secret]) -> Secret | None:
    """Return the access Secret to renew, None to create one. Raises Problem where somebody else manages the access."""
    known = list(access)
    foreign = [each.metadata.name for each in known if not is_renewed(each)]
    if foreign:
        raise Problem(
            f"Secret {foreign[0]} in {names.KCP_NAMESPACE} gives access to the cluster of Kyma {kyma}, and is not of "
            "klm join; change the credentials there, or delete it first"
        )
    return known[0] if known else None


async def join(kcp: Client, screen: Screen, joining: Joining) -> int:
    """Register a cluster, or renew its credentials. Returns 1 where Lifecycle Manager has not reached it in time.

    All is checked before the first write. Where one fails nevertheless, what was created is deleted.
    """
    name = joining.name
    roles, known = roles_of(joining), await kyma_named(kcp, name)
    if known is not None and known.metadata.being_deleted:
        raise Problem(f"Kyma {name} is being deleted: klm leave {name} shows the progress")
    secret = own_secret(name, await access_of(kcp, name))
    await _write_secret(kcp, secret_document(name, secret, ""), secret, dry_run=True)
    await _write_kyma(kcp, joining, known, dry_run=True)
    with of_cluster(joining.kubeconfig):
        connected = await Client.from_environment(joining.kubeconfig, options=OPTIONS, context=joining.context)
    async with connected as cluster, AsyncExitStack() as undo:
        with of_cluster(joining.kubeconfig):
            account = await account_in(cluster)
        if secret is None and (other := await other_kyma(kcp, account, name)):
            where = f"{joining.kubeconfig} leads to the cluster of Kyma {plain(other)}"
            raise Problem(f"{where}; nothing changed. klm leave {plain(other)} takes it out")
        with of_cluster(joining.kubeconfig):
            config, lifetime = await _identity(kcp, cluster, screen, joining, roles, undo)
        written = await _write_secret(kcp, secret_document(name, secret, config), secret, dry_run=False)
        if secret is None:
            found = written.metadata
            undo.push_async_callback(kcp.delete, SECRETS, found.name, names.KCP_NAMESPACE, uid=found.uid)
        await _write_kyma(kcp, joining, known, dry_run=False)
        undo.pop_all()
    _print_written(screen, joining, written, known, lifetime=lifetime)
    screen.flush()
    if await follow(kcp, screen, name, _is_reached, joining.timeout):
        screen.print(f"{name} has joined: Lifecycle Manager reaches the cluster")
        return 0
    screen.print(f"{name} is registered, but Lifecycle Manager has not reached it yet; klm explain {name} says why")
    return 1


async def _write_secret(kcp: Client, document: dict[str, Any], known: Secret | None, *, dry_run: bool) -> Secret:
    """Create the access Secret, or renew a known one. Raises Problem where one of that name is not of klm join."""
    name, where = document["metadata"]["name"], names.KCP_NAMESPACE
    if known is not None:
        return await kcp.apply(SECRETS, name, document, where, field_manager=FIELD_MANAGER, dry_run=dry_run)
    try:
        return await kcp.create(SECRETS, document, where, field_manager=FIELD_MANAGER, dry_run=dry_run)
    except AlreadyExists:
        raise Problem(f"Secret {name} in {where} is not of klm join: rename or delete it first") from None


async def _write_kyma(kcp: Client, joining: Joining, known: Kyma | None, *, dry_run: bool) -> None:
    where = names.KCP_NAMESPACE
    if known is None:
        await kcp.create(KYMAS, kyma_document(joining), where, field_manager=FIELD_MANAGER, dry_run=dry_run)
    elif joining.labels:
        patch = {"metadata": {"labels": dict(joining.labels)}}
        await kcp.merge_patch(KYMAS, joining.name, patch, where, field_manager=FIELD_MANAGER, dry_run=dry_run)


def _print_written(
    screen: Screen, joining: Joining, secret: Secret, known: Kyma | None, *, lifetime: timedelta
) -> None:
    kyma, lasts = f"Kyma {names.KCP_NAMESPACE}/{joining.name}", duration(lifetime)
    where = f"{names.KCP_NAMESPACE}/{secret.metadata.name}"
    screen.print(f"Secret {where}: a token for {lasts}, which Lifecycle Manager renews in time")
    if known is None:
        screen.print(f"{kyma}: created, channel {plain(joining.channel)}")
        if not joining.any_module and not joining.roles:
            screen.print("  no module can be installed yet: --role FILE gives the rights for one, --any-module for all")
    elif joining.labels:
        screen.print(f"{kyma}: labels changed")


async def _identity(
    kcp: Client,
    cluster: Client,
    screen: Screen,
    joining: Joining,
    roles: tuple[Mapping[str, Any], ...],
    undo: AsyncExitStack,
) -> tuple[str, timedelta]:
    """Return a kubeconfig that Lifecycle Manager may use, and works from here; for how long its token was issued."""
    if cluster.server == kcp.server:
        raise Problem(
            f"{joining.kubeconfig} leads to the control plane itself; --kubeconfig is of the cluster that joins, "
            "--kcp-kubeconfig of the control plane"
        )
    try:
        usable = kubeconfig_for(joining.kubeconfig, ACCOUNT, context=joining.context, server=joining.server)
        await (await Client.from_kubeconfig(usable("token"), policy=KubeconfigPolicy.strict())).close()
    except (KubeconfigInvalid, KubeconfigRefused) as error:
        raise Problem(f"Lifecycle Manager can't use the cluster of {joining.kubeconfig}: {error}") from None
    version = await cluster.server_version()
    config = await create_identity(
        cluster,
        joining.kubeconfig,
        name=ACCOUNT,
        namespace=ACCOUNT_NAMESPACE,
        roles=roles,
        lifetime=joining.lifetime,
        context=joining.context,
        server=joining.server,
        undo=undo,
    )
    try:
        lifetime = token_in(config).lifetime  # the API server may have a shorter maximum than was requested
    except TokenUnusable as error:
        raise Problem(f"Lifecycle Manager can't renew the token of the cluster: {error}") from None
    screen.print(f"cluster {joining.server or cluster.server}, {plain(version)}")
    screen.print(f"ServiceAccount {ACCOUNT_NAMESPACE}/{ACCOUNT}: {len(roles)} roles")
    return config, lifetime


def _is_reached(kyma: Kyma | None) -> bool:
    if kyma is None or kyma.status.observed_generation != kyma.metadata.generation:
        return False
    reachable = find(kyma.status.conditions, REACHABLE)
    return reachable is not None and reachable.status == "True"
