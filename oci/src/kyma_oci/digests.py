"""The digest by which contents are named in registries, and compared."""

import hashlib


def content_digest(content: bytes) -> str:
    """Return the digest of a content as registries write it: sha256 and its hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
