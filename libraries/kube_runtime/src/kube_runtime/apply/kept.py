"""How much of the objects of a set is kept until all are applied: a cluster's users decide how large each is."""

from dataclasses import dataclass, field

import msgspec

from kube_runtime.client.json_limits import JsonLimits, check_json
from kube_runtime.exceptions import ResponseTooLarge
from kube_runtime.resource import JsonObject

MAX_KEPT_VALUES = 1_600_000
"""Of all objects of a set together: several times as many as the documents of the largest module have."""
_CHARACTERS = 64
"""So many characters count as one more value."""


@dataclass(eq=False, slots=True)
class KeptObjects:
    """The objects of one set, as they are in a cluster, that are kept at once."""

    left: int = field(default_factory=lambda: MAX_KEPT_VALUES)

    def keep(self, *lives: JsonObject | None) -> None:
        """Take note of objects. Raises ResponseTooLarge where there is no room for one beside the others."""
        for live in lives:
            values = self._values_in(live) if live is not None else 0
            if values > self.left:
                raise ResponseTooLarge(f"the objects of the set have more than {MAX_KEPT_VALUES} values in the cluster")
            self.left -= values

    def _values_in(self, live: JsonObject) -> int:
        """Return how many values an object counts for; more than are left where it has too many."""
        try:
            text = msgspec.json.encode(live)
            values = check_json(text, JsonLimits(len(text), self.left, max_depth=None))
        except (RecursionError, ResponseTooLarge):
            return self.left + 1
        return values + len(text) // _CHARACTERS
