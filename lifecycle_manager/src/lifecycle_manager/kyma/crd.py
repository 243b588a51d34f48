"""Which Kyma CRD an SKR gets: the one that KCP has.

What an administrator applies in KCP is what every SKR gets, also where it is older than what the SKR had: otherwise
nobody could revert a change. It does not depend on the version of Lifecycle Manager, so that two versions, while one
replaces the other, never overwrite each other's CRD.
"""

import hashlib
from dataclasses import dataclass, field

import msgspec

from kube_runtime import Change, Informer, JsonObject, ObjectKey
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, labelled_crd
from lifecycle_manager_api import Kyma, crds

# The rest of `spec` is `conversion`, whose webhook only KCP can reach. In an SKR the API server's default applies,
# which converts nothing.
_COPIED_FIELDS = ("group", "names", "scope", "versions")


@dataclass(frozen=True, slots=True, eq=False)
class KymaCrd:
    """The CRD for an SKR. `digest` identifies it, and is empty where it does not come from KCP."""

    document: JsonObject
    digest: str


@dataclass(eq=False)
class KymaCrds:
    """The CRD as the cache has it, copied once for each state of the cache."""

    informer: Informer[JsonObject]
    _known: tuple[int, KymaCrd] | None = field(default=None, init=False)

    def current(self) -> KymaCrd:
        state = self.informer.cache.changes
        if self._known is None or self._known[0] != state:
            self._known = (state, self._copy())
        return self._known[1]

    def _copy(self) -> KymaCrd:
        found = self.informer.cache.get(ObjectKey("", KYMAS.plural_name))
        if found is None:
            # A new SKR need not wait for its Kyma CR: the CRD of this version is enough until that of KCP can be read.
            # The empty digest has it replaced then, and keeps SKRs that have the CRD of KCP as they are until then.
            return KymaCrd(labelled_crd(crds.crd_for(Kyma)), "")
        document = copy_for_skr(found)
        return KymaCrd(document, digest_of(document))


def copy_for_skr(crd: JsonObject) -> JsonObject:
    """Return what of a CRD goes to SKRs.

    Of its metadata that is only the name: its labels and annotations belong to whatever manages it in KCP (a Helm
    release, kubectl, an injector of CAs), which would manage it in the SKR as well.
    """
    spec = crd["spec"]
    copy = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": crd["metadata"]["name"]},
        "spec": {key: spec[key] for key in _COPIED_FIELDS},
    }
    return labelled_crd(copy)


def digest_of(document: JsonObject) -> str:
    """Return a digest of a document that does not depend on the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]


def crd_changed(change: Change[JsonObject]) -> bool:
    """Tell whether SKRs get another CRD by a change of that in KCP.

    A CRD that is deleted changes nothing: all Kymas are deleted with it.
    """
    old, new = change.old, change.new
    return new is not None and (old is None or copy_for_skr(old) != copy_for_skr(new))
