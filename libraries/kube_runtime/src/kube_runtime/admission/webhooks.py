"""Functions that check or complete objects before they are stored, and the webhooks that call them."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from kube_runtime.admission.review import MAX_ERROR_LENGTH, ReviewedObject, answer, patch_between
from kube_runtime.client.decoding import UNDECODABLE
from kube_runtime.resource import JsonObject, Resource

T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Review(Generic[T]):
    """What is known of a request: the object before it, and who sends it. Clients show what is added to `warnings`."""

    operation: Operation
    old: T | None
    user: str
    dry_run: bool
    warnings: list[str] = field(default_factory=list)


Validate = Callable[[T, Review[T]], Awaitable[str | None] | str | None]
"""Returns why an object is refused, None where it is accepted."""
Mutate = Callable[[T, Review[T]], Awaitable[T | None] | T | None]
"""Returns the object as it is to be stored, None where it stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Webhook(Generic[T]):
    """A function for the objects of a kind."""

    resource: Resource[T]
    function: Callable[[T, Review[T]], Any]
    mutates: bool
    operations: Sequence[Operation]

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/{'mutate' if self.mutates else 'validate'}/{self.resource.plural_name}"

    async def respond(self, request: ReviewedObject) -> bytes:
        """Return the answer to a review. Nothing is stored where the function raises."""
        try:
            old, new = (self._decoded(each) for each in (request.old_object, request.object))
        except UNDECODABLE as error:
            return answer(request.uid, f"the {self.resource.kind} can't be read: {error}"[:MAX_ERROR_LENGTH])
        item = old if request.is_deletion else new
        if item is None:
            return answer(request.uid, "the review has no object")
        review = Review(
            operation=cast("Operation", request.operation),
            old=old,
            user=request.user_info.username,
            dry_run=request.dry_run,
        )
        try:
            result = self.function(item, review)
            if inspect.isawaitable(result):
                result = await result
        except Exception:
            log.exception("%s: the function for %s/%s failed", self.path, request.namespace, request.name)
            return answer(request.uid, f"the operator failed at this {self.resource.kind}; its log says why")
        if self.mutates and result is not None:
            patch = tuple(patch_between(_plain(item), _plain(result)))
            return answer(request.uid, None, review.warnings, patch=patch)
        refusal = None if self.mutates or result is None else str(result)[:MAX_ERROR_LENGTH]
        return answer(request.uid, refusal, review.warnings)

    def configuration(self, operator: str, client: Mapping[str, Any], namespace: str | None) -> JsonObject:
        """Return the webhook's part of a configuration. Objects that are being deleted are not reviewed at updates."""
        resource = self.resource
        selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}} if namespace else {}
        condition = "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
        return {
            "name": f"{operator}.{resource.plural}.{resource.group or 'core'}",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {key: self._placed(value) for key, value in client.items()},
            "rules": [
                {
                    "apiGroups": [resource.group],
                    "apiVersions": [resource.version],
                    "resources": [resource.plural],
                    "operations": list(self.operations),
                    "scope": "Namespaced" if resource.namespaced else "Cluster",
                }
            ],
            "namespaceSelector": selector,
            "matchConditions": [{"name": "not-being-deleted", "expression": condition}],
            "matchPolicy": "Equivalent",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }

    def _placed(self, value: Any) -> Any:
        return {**value, "path": self.path} if isinstance(value, Mapping) else value

    def _decoded(self, body: msgspec.Raw) -> T | None:
        return msgspec.json.decode(body, type=self.resource.type | None)


def _plain(item: object) -> JsonObject:
    plain: JsonObject = msgspec.to_builtins(item)
    return plain
