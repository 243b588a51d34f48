"""What is written for a cluster that joins, and which access Secrets are of `klm join`: pure functions."""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from kube_runtime import ManifestInvalid, parse_objects
from kyma_fleet.problems import Problem
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.skr.token import MAX_LIFETIME, MIN_LIFETIME, is_renewed
from lifecycle_manager_api import names

ACCOUNT, ACCOUNT_NAMESPACE = names.LIFECYCLE_MANAGER, "kube-system"
"""The ServiceAccount of Lifecycle Manager in a cluster; the Role in rbac/skr-token.yaml is for it alone."""
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
    """Return the roles that Lifecycle Manager gets in the cluster. Raises Problem for a file that holds none."""
    own = ["skr.yaml", "skr-token.yaml", *(["skr-modules.yaml"] if joining.any_module else [])]
    found = [each.document for name in own for each in parse_objects(_RBAC.joinpath(name).read_text())]
    for file in joining.roles:
        try:
            objects = parse_objects(file.read_text())
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
