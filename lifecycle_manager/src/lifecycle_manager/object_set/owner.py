"""The resource in KCP that a set of objects belongs to, and the Applier of its objects."""

from dataclasses import dataclass

from kube_runtime import Applier, Client, ObjectKey
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager_api import names


class RecordingFailed(Exception):
    """The intent could not be recorded in KCP, so nothing was applied."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A resource in KCP whose objects are in an SKR. `default_namespace` is for objects that name none."""

    key: ObjectKey
    module: str
    default_namespace: str = "default"

    def applier(self, skr: Client) -> Applier:
        """Return an Applier that marks the objects as the owner's."""
        return Applier(
            skr,
            field_manager=FIELD_MANAGER,
            labels={
                names.MANAGED_BY: names.LIFECYCLE_MANAGER,
                names.WATCHED_BY: "kyma",
                names.MODULE_NAME: self.module,
            },
            annotations={names.OWNED_BY: str(self.key)},
            default_namespace=self.default_namespace,
        )


@dataclass(frozen=True, eq=False, slots=True)
class SkrObjects:
    """The objects of one owner in one SKR: part of the owner's state.

    The Applier remembers what it applied, so it is kept as long as the client: another client may lead to another
    cluster.
    """

    skr: Client
    applier: Applier

    @classmethod
    def of(cls, known: "SkrObjects | None", skr: Client, owner: Owner) -> "SkrObjects":
        """Return what is kept for this client, or start anew."""
        return known if known is not None and known.skr is skr else cls(skr, owner.applier(skr))
