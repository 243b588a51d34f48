"""The sources of a module's objects: a layer in an OCI registry, or a file behind a link.

- `references`: the source that a Manifest names
- `store`: each source is fetched and parsed once for the whole fleet
- `parsing`: from the bytes of a layer to its objects or its document, beside the event loop
- `downloads`: files behind links

Registries, logins and component descriptors are those of `kyma_oci`.
"""
