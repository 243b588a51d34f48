"""The deletion of a Kyma: `plan` decides on the stages, `apply` carries out what they do in the SKR."""

from lifecycle_manager.kyma.deletion.apply import release_in_skr, remove_in_skr
from lifecycle_manager.kyma.deletion.plan import plan_deletion

__all__ = ["plan_deletion", "release_in_skr", "remove_in_skr"]
