"""Which CustomResourceDefinition of Kymas the user clusters get: the one that the control plane has.

What an administrator applies there is what every cluster gets, also where that is older than what it had: nobody could
take a change back otherwise. It does not depend on the version of the Lifecycle Manager, so that two of them, while one
replaces the other, never bring definitions of their own in turns.
"""

import hashlib
from dataclasses import dataclass, field

import msgspec

from kube_runtime import Change, Informer, JsonObject, ObjectKey
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS
from lifecycle_manager_api import Kyma, crds

# The rest of `spec` is `conversion`, whose webhook only the control plane can reach. In user clusters it is left to the
# API server, whose default is to convert nothing.
_BROUGHT = ("group", "names", "scope", "versions")


@dataclass(frozen=True, slots=True, eq=False)
class KymaDefinition:
    """What a cluster gets. `digest` tells it from every other, and is empty where it is not the control plane's."""

    document: JsonObject
    digest: str


@dataclass(eq=False)
class KymaDefinitions:
    """The definition as the cache has it now, made once for each of its states."""

    informer: Informer[JsonObject]
    _known: tuple[int, KymaDefinition] | None = field(default=None, init=False)

    def current(self) -> KymaDefinition:
        """Return what clusters get."""
        state = self.informer.cache.changes
        if self._known is None or self._known[0] != state:
            self._known = (state, self._make())
        return self._known[1]

    def _make(self) -> KymaDefinition:
        found = self.informer.cache.get(ObjectKey("", KYMAS.plural_name))
        if found is None:
            # A new cluster need not wait for its Kyma CR: this one will do until the control plane's can be seen. The
            # empty digest has it replaced then, and has clusters that were given theirs left alone until then.
            return KymaDefinition(crds.crd_for(Kyma), "")
        document = brought(found)
        return KymaDefinition(document, digest_of(document))


def brought(definition: JsonObject) -> JsonObject:
    """Return what of a definition goes to user clusters.

    Of its metadata that is the name alone: labels and annotations say what manages it in the control plane (a Helm
    release, kubectl, an injector of CAs) and would have the same look after it in the cluster.
    """
    spec = definition["spec"]
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": definition["metadata"]["name"]},
        "spec": {key: spec[key] for key in _BROUGHT},
    }


def digest_of(document: JsonObject) -> str:
    """Return what tells a document from every other; the order of keys does not."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]


def brings_other(change: Change[JsonObject]) -> bool:
    """Tell whether clusters get another definition by a change of the control plane's.

    One that is gone changes nothing: it took all Kymas with it.
    """
    old, new = change.old, change.new
    return new is not None and (old is None or brought(old) != brought(new))
