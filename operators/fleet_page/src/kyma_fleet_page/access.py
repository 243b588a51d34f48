"""Who may see the page, and what of it: whatever the API server of the control plane lets that user list.

The token is reviewed by TokenReview, and each right by SubjectAccessReview; the answers are kept for some seconds.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kube_runtime import SYSTEM_CLOCK, Client, Clock, Resource
from lifecycle_manager.contract.resources import KYMAS

TOKEN_REVIEWS = Resource.dynamic("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource.dynamic(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
KEPT_SECONDS = 5.0
MAX_KEPT = 10_000
MAX_TOKEN_BYTES = 16 * 1024
ALL_NAMESPACES = ""

MayList = Callable[[Resource[Any], str], Awaitable[bool]]
"""Tells whether the user of a page may list a kind in a namespace. Raises KubeError."""


class AccessDecision(Enum):
    """What a token allows."""

    ALLOWED = "allowed"
    UNKNOWN = "the token is not valid, or has expired"
    FORBIDDEN = "this user may not list Kymas"


class Authorizer(Protocol):
    """Decides what the owner of a token may see."""

    async def of(self, token: str) -> AccessDecision:
        """Return whether the page is shown. Raises KubeError."""
        ...

    async def user_of(self, token: str) -> str:
        """Return the name of the owner, by which limits count; nothing for an invalid token. Raises KubeError."""
        ...

    async def may_list(self, token: str, resource: Resource[Any], namespace: str) -> bool:
        """Tell whether a kind in a namespace is shown. Raises KubeError."""
        ...


_Answer = Mapping[str, Any]


@dataclass(eq=False)
class Access:
    """Asks the API server, through a client that may create both reviews."""

    client: Client
    namespace: str
    clock: Clock = SYSTEM_CLOCK
    _kept: OrderedDict[tuple[bytes, str, str, str], tuple[float, _Answer]] = field(default_factory=OrderedDict)
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(10))

    async def of(self, token: str) -> AccessDecision:
        """Return whether the page is shown. Raises KubeError."""
        if await self._reviewed(token) is None:
            return AccessDecision.UNKNOWN
        allowed = await self.may_list(token, KYMAS, self.namespace)
        return AccessDecision.ALLOWED if allowed else AccessDecision.FORBIDDEN

    async def user_of(self, token: str) -> str:
        """Return the name of the owner of a token. Raises KubeError."""
        return str((await self._reviewed(token) or {}).get("username", ""))

    async def may_list(self, token: str, resource: Resource[Any], namespace: str) -> bool:
        """Tell whether a kind in a namespace, or in all of them, is shown. Raises KubeError."""
        user = await self._reviewed(token)
        if user is None:
            return False
        subject = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "extra": user.get("extra", {}),
            "resourceAttributes": {
                "namespace": namespace,
                "verb": "list",
                "group": resource.group,
                "resource": resource.plural,
            },
        }
        key = (_digest(token), resource.group, resource.plural, namespace)
        return (await self._answer(key, ACCESS_REVIEWS, subject)).get("allowed") is True

    async def _reviewed(self, token: str) -> _Answer | None:
        if not token or len(token) > MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable():
            return None
        review = await self._answer((_digest(token), "", "", ""), TOKEN_REVIEWS, {"token": token})
        return review.get("user", {}) if review.get("authenticated") is True else None

    async def _answer(
        self, key: tuple[bytes, str, str, str], resource: Resource[dict[str, Any]], spec: Mapping[str, Any]
    ) -> _Answer:
        until, known = self._kept.get(key, (0.0, {}))
        if until > self.clock.monotonic():
            return known
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
        async with self._asking:
            created = await self.client.create(resource, document, field_manager="lifecycle-manager-page")
        status = created.get("status")
        answer = status if isinstance(status, dict) else {}
        self._kept[key] = (self.clock.monotonic() + KEPT_SECONDS, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return answer


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
