"""What is known of a cluster's catalog, in one line on its Kyma: what was brought there, and in which revisions.

Nobody but us writes these objects, and they have no status. So as long as their revisions are the same, they are as
they were left, and it is enough to ask for the revisions. Kept on the Kyma, that outlives the process: a start finds
the whole fleet in order without asking it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kube_runtime import Revision
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, names

ANNOTATION = f"{names.GROUP}/skr-catalog"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Record:
    """What a cluster had when it was last brought in order.

    - `definitions`: a digest of the CRDs
    - `catalog`: the digest of what was wanted
    - `templates`, `releases`: fingerprints of the revisions
    """

    definitions: str = ""
    catalog: str = ""
    templates: str = ""
    releases: str = ""

    @classmethod
    def of(cls, kyma: Kyma) -> "Record":
        """Read the record of a Kyma; one that can't be read is empty."""
        parts = kyma.metadata.annotations.get(ANNOTATION, "").split("/")
        return cls(*parts) if len(parts) == 4 else cls()

    def print_of(self, kind: str) -> str:
        """Return the fingerprint of a kind."""
        return self.templates if kind == ModuleTemplate.KIND else self.releases

    def with_prints(self, prints: Mapping[str, str]) -> "Record":
        """Return the record with other fingerprints, by kind."""
        return replace(
            self,
            templates=prints.get(ModuleTemplate.KIND, self.templates),
            releases=prints.get(ModuleReleaseMeta.KIND, self.releases),
        )

    def __str__(self) -> str:
        return "/".join((self.definitions, self.catalog, self.templates, self.releases))


def fingerprint(revisions: Iterable[Revision | ModuleTemplate | ModuleReleaseMeta]) -> str:
    """Return the same text for the same revisions of the same objects."""
    digest = hashlib.blake2b(digest_size=8)
    for metadata in sorted((each.metadata for each in revisions), key=lambda metadata: metadata.name):
        digest.update(f"{metadata.name}/{metadata.uid}/{metadata.resource_version}\n".encode())
    return digest.hexdigest()
