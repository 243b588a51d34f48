"""The sources of a module's objects: a layer in an OCI registry, or a file behind a link.

- `references`: the source that a Manifest names
- `store`: each source is fetched and parsed once for the whole fleet
- `parsing`: from the bytes of a layer to its objects or its document, beside the event loop
- `downloads`: files behind links

Registries, logins and component descriptors are those of `kyma_oci`.
"""

from lifecycle_manager.module_sources.downloads import DownloadFailed, Downloads
from lifecycle_manager.module_sources.parsing import ModuleObjects, ObjectsInvalid, read_yaml
from lifecycle_manager.module_sources.references import HttpsLink, Source, source_in
from lifecycle_manager.module_sources.store import LinkChanged, ObjectStore, SourceAwaited

__all__ = [
    "DownloadFailed",
    "Downloads",
    "HttpsLink",
    "LinkChanged",
    "ModuleObjects",
    "ObjectStore",
    "ObjectsInvalid",
    "Source",
    "SourceAwaited",
    "read_yaml",
    "source_in",
]
