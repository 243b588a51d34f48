"""Credentials for private images in the objects of a module. Pure functions.

- The image pull Secret of the fleet (`--skr-image-pull-secret`) is named by the Pods of Deployments and StatefulSets.
  What runs the module gets its name in a variable too, for the Pods that it starts itself.
- A Secret of the module DEPLOYER with the annotation `inject-data-from-kcp` gets the data of the Secret of its name in
  KCP. That one has to have the label of the module. No other module can read a Secret of KCP in this way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kube_runtime import KubernetesObject
from kyma_oci import SourceError
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.module_installation.images import with_pod_spec
from lifecycle_manager.module_sources.parsing import ObjectsInvalid
from lifecycle_manager.options.modules import DEPLOYER
from lifecycle_manager_api import ManagerReference, boolean, names

VARIABLE = "SKR_IMG_PULL_SECRET"
_WORKLOADS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet")})


class DataNotInjected(SourceError):
    """A Secret of a module asks for data of KCP that the module may not have, or that do not exist."""

    again_after_seconds = 5.0


@dataclass(frozen=True, slots=True)
class ImagePullSecret:
    """The name of the image pull Secret. `manager`, which runs the module, gets a variable; None for all workloads."""

    name: str
    manager: ManagerReference | None


def with_pull_secret(objects: Iterable[KubernetesObject], secret: ImagePullSecret) -> tuple[KubernetesObject, ...]:
    """Return objects with the image pull Secret in their workloads. Raises ObjectsInvalid."""
    return tuple(_referring(each, secret) for each in objects)


def with_data(objects: Iterable[KubernetesObject], data: Iterable[Secret]) -> tuple[KubernetesObject, ...]:
    """Return objects with data of KCP in those Secrets that ask for it. Raises DataNotInjected."""
    secrets = {each.metadata.name: each for each in data}
    return tuple(_filled(each, secrets) if _needs_data(each) else each for each in objects)


def _referring(thing: KubernetesObject, secret: ImagePullSecret) -> KubernetesObject:
    group, _, version = thing.api_version.rpartition("/")
    if (group, thing.kind) not in _WORKLOADS:
        return thing
    itself = ManagerReference(group=group, version=version, kind=thing.kind, name=thing.name, namespace=thing.namespace)
    is_manager = secret.manager in {None, itself}
    return with_pod_spec(thing, partial(_with_reference, thing=thing, name=secret.name, is_manager=is_manager))


def _with_reference(pod: Mapping[str, Any], *, thing: KubernetesObject, name: str, is_manager: bool) -> dict[str, Any]:
    """Return the specification of a Pod. What it has already comes first, so that no Pod of upstream's restarts."""
    given = pod.get("imagePullSecrets")
    known = list(given) if isinstance(given, list) else []
    changed = {**pod, "imagePullSecrets": known if {"name": name} in known else [*known, {"name": name}]}
    containers = pod.get("containers")
    if is_manager and isinstance(containers, list):
        changed["containers"] = [_with_variable(each, thing, name) for each in containers]
    return changed


def _with_variable(container: Any, thing: KubernetesObject, name: str) -> Any:
    if not isinstance(container, Mapping):
        return container
    given = container.get("env")
    known = list(given) if isinstance(given, list) else []
    if any(isinstance(each, Mapping) and each.get("name") == VARIABLE for each in known):
        raise ObjectsInvalid(f"document {thing.index}: {thing} sets the variable {VARIABLE}, which is reserved")
    return {**container, "env": [*known, {"name": VARIABLE, "value": name}]}


def _needs_data(thing: KubernetesObject) -> bool:
    annotations = thing.document["metadata"].get("annotations")
    wants = isinstance(annotations, Mapping) and boolean(annotations, names.INJECT_DATA_FROM_KCP)
    return wants and (thing.api_version, thing.kind) == ("v1", "Secret")


def _filled(thing: KubernetesObject, secrets: Mapping[str, Secret]) -> KubernetesObject:
    secret = secrets.get(thing.name)
    if secret is None:
        where = f"{names.KCP_NAMESPACE} has no Secret {thing.name} with the label {names.MODULE_NAME}={DEPLOYER}"
        raise DataNotInjected(f"document {thing.index}: {thing} asks for data that it can't have: {where}")
    document = {key: value for key, value in thing.document.items() if key != "stringData"}
    return replace(thing, document={**document, "data": dict(secret.data)})
