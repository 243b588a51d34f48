"""Names of objects that are derived from other names.

A ModuleTemplate is named after its module and version, so that a ModuleReleaseMeta can refer to it. Objects for a
module of a Kyma are named after both.
"""

import hashlib
import re

from lifecycle_manager_api.versions import InvalidVersion, Version

MAX_NAME_LENGTH = 253
"""Characters in the name of an object (RFC 1123 subdomain)."""

_HASH_CHARACTERS = 10
_MODULE_AND_VERSION = re.compile(r"([a-z]{3,}(?:-[a-z]{3,})*)-(\d.*)", re.ASCII)


def template_name(module: str, version: str) -> str:
    """Return the name of the ModuleTemplate for a version of a module."""
    return f"{module}-{version}"


def split_template_name(name: str) -> tuple[str, Version] | None:
    """Return the module and the version in the name of a ModuleTemplate, or None if it does not have that form."""
    found = _MODULE_AND_VERSION.fullmatch(name)
    if found is None:
        return None
    try:
        return found[1], Version.parse(found[2])
    except InvalidVersion:
        return None


def joined_name(*parts: str, distinct_by: str = "") -> str:
    """Return the parts joined by hyphens, at most MAX_NAME_LENGTH characters.

    A hash of `distinct_by` is added, for objects whose parts are the same. A name that is too long is cut, and a hash
    of the whole name is added, so that names remain unique.
    """
    name = "-".join(parts)
    if distinct_by:
        name = f"{name}-{_hash(distinct_by)}"
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - _HASH_CHARACTERS - 1].rstrip('-.')}-{_hash(name)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]
