"""The sources of a module's objects: a layer in an OCI registry, or a file behind a link.

- `references`: the source that a Manifest names
- `registry`: pulls layers and manifests; `credentials`: the login for a registry
- `hosts`: the hosts that are allowed
- `unpacking`: from the bytes of a layer to the text of its objects
- `store`, `blobs`: each source is fetched and parsed once for the whole fleet, and layers are cached on disk
- `components`, `descriptor`: the component descriptors that name the layers
- `problems`: everything that can go wrong, with the reasons for conditions
"""

from lifecycle_manager.oci.blobs import Blobs
from lifecycle_manager.oci.components import Components
from lifecycle_manager.oci.credentials import Login, login_in
from lifecycle_manager.oci.hosts import AllowedHosts
from lifecycle_manager.oci.problems import CredentialsInvalid, SourceAwaited, SourceError, SourceInvalid
from lifecycle_manager.oci.references import HttpsLink, Layer, Source, source_in
from lifecycle_manager.oci.registry import Registries
from lifecycle_manager.oci.store import ModuleObjects, ObjectStore

__all__ = [
    "AllowedHosts",
    "Blobs",
    "Components",
    "CredentialsInvalid",
    "HttpsLink",
    "Layer",
    "Login",
    "ModuleObjects",
    "ObjectStore",
    "Registries",
    "Source",
    "SourceAwaited",
    "SourceError",
    "SourceInvalid",
    "login_in",
    "source_in",
]
