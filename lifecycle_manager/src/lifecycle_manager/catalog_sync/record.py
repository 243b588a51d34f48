"""The record of an SKR's catalog, in the status of its Kyma: what was applied, in which resource versions.

Only LM writes these objects, and they have no status. As long as their resource versions are the recorded ones, they
are unchanged, and listing the resource versions is enough. The record outlives the process: after a restart no SKR has
to be read.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kube_runtime import Revision
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate


@dataclass(frozen=True, slots=True)
class Record:
    """What an SKR had after its last synchronization.

    - `crds`: the digest of the CRDs
    - `catalog`: the digest of the wanted catalog
    - `templates`, `releases`: fingerprints of the objects' resource versions
    """

    crds: str = ""
    catalog: str = ""
    templates: str = ""
    releases: str = ""

    @classmethod
    def of(cls, kyma: Kyma) -> "Record":
        """Parse the record of a Kyma; an invalid one is empty."""
        parts = kyma.status.records.catalog.split("/")
        return cls(*parts) if len(parts) == 4 else cls()

    def fingerprint_of(self, kind: str) -> str:
        """Return the fingerprint of a kind."""
        return self.templates if kind == ModuleTemplate.KIND else self.releases

    def with_fingerprints(self, fingerprints: Mapping[str, str]) -> "Record":
        """Return the record with new fingerprints, by kind."""
        return replace(
            self,
            templates=fingerprints.get(ModuleTemplate.KIND, self.templates),
            releases=fingerprints.get(ModuleReleaseMeta.KIND, self.releases),
        )

    def __str__(self) -> str:
        return "/".join((self.crds, self.catalog, self.templates, self.releases))


def fingerprint(revisions: Iterable[Revision | ModuleTemplate | ModuleReleaseMeta]) -> str:
    """Return a digest of the objects' names, uids and resource versions."""
    digest = hashlib.blake2b(digest_size=8)
    for metadata in sorted((each.metadata for each in revisions), key=lambda metadata: metadata.name):
        digest.update(f"{metadata.name}/{metadata.uid}/{metadata.resource_version}\n".encode())
    return digest.hexdigest()
