"""What an API server says of whoever asks: the name, the rights, and the time at which it answers."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kube_runtime import Client, Resource
from kyma_fleet.times import time_in

SELF_REVIEWS = Resource.dynamic(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)
ACCESS_REVIEWS = Resource.dynamic(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
FIELD_MANAGER = "klm"
Right = tuple[str, str, str]
"""A verb, the group and the plural of a kind."""


async def who(client: Client) -> str:
    """Return the name by which the API server knows whoever asks. Raises KubeError."""
    review = await client.create(SELF_REVIEWS, {}, field_manager=FIELD_MANAGER)
    return str(_part(_part(review, "status"), "userInfo").get("username") or "unknown")


async def time_of_server(client: Client) -> datetime | None:
    """Return the time of the API server in whole seconds; None where it does not tell. Raises KubeError."""
    review = await client.create(SELF_REVIEWS, {}, field_manager=FIELD_MANAGER)
    return time_in(_part(review, "metadata").get("creationTimestamp"))


async def missing_rights(client: Client, wanted: Iterable[Right]) -> list[str]:
    """Return which of some rights whoever asks does not have. Raises KubeError."""
    missing = []
    for verb, group, plural in wanted:
        attributes = {"verb": verb, "group": group, "resource": plural}
        document = {"spec": {"resourceAttributes": attributes}}
        review = await client.create(ACCESS_REVIEWS, document, field_manager=FIELD_MANAGER)
        if _part(review, "status").get("allowed") is not True:
            missing.append(f"{verb} {plural}")
    return missing


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}
