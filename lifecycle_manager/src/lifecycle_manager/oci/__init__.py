"""Where the objects of a module come from: a layer in an OCI registry, or a file behind a link.

`references` reads what a Manifest says, `registry` pulls, `unpacking` opens, `store` does it once for the whole fleet,
and `problems` shows everything that can go wrong on the way. `components` has the descriptors that say which layer.
"""

from lifecycle_manager.oci.blobs import Blobs
from lifecycle_manager.oci.components import Components
from lifecycle_manager.oci.credentials import Login, login_in
from lifecycle_manager.oci.problems import CredentialsInvalid, SourceAwaited, SourceError, SourceInvalid
from lifecycle_manager.oci.references import Layer, Link, Source, source_in
from lifecycle_manager.oci.registry import Registries
from lifecycle_manager.oci.store import ModuleObjects, ObjectStore

__all__ = [
    "Blobs",
    "Components",
    "CredentialsInvalid",
    "Layer",
    "Link",
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
