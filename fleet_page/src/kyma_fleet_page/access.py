"""Who may see the page: whoever may list Kymas in the control plane, as its API server says.

The token is reviewed by TokenReview, and the right by SubjectAccessReview; both answers are kept for some seconds.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kube_runtime import SYSTEM_CLOCK, Client, Clock, Resource

TOKEN_REVIEWS = Resource.dynamic("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource.dynamic(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
KEPT_SECONDS = 10.0
MAX_KEPT = 1000
MAX_TOKEN_BYTES = 16 * 1024


class AccessDecision(Enum):
    """What a token allows."""

    ALLOWED = "allowed"
    UNKNOWN = "the token is not valid, or has expired"
    FORBIDDEN = "this user may not list Kymas"


@dataclass(eq=False)
class Access:
    """Asks the API server, through a client that may create both reviews."""

    client: Client
    namespace: str
    clock: Clock = SYSTEM_CLOCK
    _kept: OrderedDict[bytes, tuple[float, AccessDecision]] = field(default_factory=OrderedDict)
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(10))

    async def of(self, token: str) -> AccessDecision:
        """Return what a token allows. Raises KubeError."""
        if not token or len(token) > MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable():
            return AccessDecision.UNKNOWN
        key = hashlib.blake2b(token.encode(), digest_size=32).digest()
        until, verdict = self._kept.get(key, (0.0, AccessDecision.UNKNOWN))
        if until > self.clock.monotonic():
            return verdict
        async with self._asking:
            verdict = await self._ask(token)
        self._kept[key] = (self.clock.monotonic() + KEPT_SECONDS, verdict)
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return verdict

    async def _ask(self, token: str) -> AccessDecision:
        review = await self._create(TOKEN_REVIEWS, {"token": token})
        if review.get("authenticated") is not True:
            return AccessDecision.UNKNOWN
        user = review.get("user", {})
        subject = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "extra": user.get("extra", {}),
            "resourceAttributes": {
                "namespace": self.namespace,
                "verb": "list",
                "group": "operator.kyma-project.io",
                "resource": "kymas",
            },
        }
        answer = await self._create(ACCESS_REVIEWS, subject)
        return AccessDecision.ALLOWED if answer.get("allowed") is True else AccessDecision.FORBIDDEN

    async def _create(self, resource: Resource[dict[str, Any]], spec: Mapping[str, Any]) -> dict[str, Any]:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
        created = await self.client.create(resource, document, field_manager="lifecycle-manager-page")
        status = created.get("status")
        return status if isinstance(status, dict) else {}
