"""How objects are named after one another.

A ModuleTemplate is named after its module and version, so that a ModuleReleaseMeta can find it; what belongs to a
module of a Kyma is named after both.
"""

import hashlib
import re

from lifecycle_manager_api.versions import InvalidVersion, Version

LONGEST_NAME = 253
"""Characters in the name of an object (RFC 1123 subdomain, as Kubernetes uses it)."""

_HASH_CHARACTERS = 10
_MODULE_AND_VERSION = re.compile(r"([a-z]{3,}(?:-[a-z]{3,})*)-(\d.*)", re.ASCII)


def template_name(module: str, version: str) -> str:
    """Return the name of the ModuleTemplate that has a version of a module."""
    return f"{module}-{version}"


def split_template_name(name: str) -> tuple[str, Version] | None:
    """Return the module and the version in the name of a ModuleTemplate; None where it is not named that way."""
    found = _MODULE_AND_VERSION.fullmatch(name)
    if found is None:
        return None
    try:
        return found[1], Version.parse(found[2])
    except InvalidVersion:
        return None


def joined_name(*parts: str, distinct_by: str = "") -> str:
    """Return a name made of parts, within the length that a name may have.

    `distinct_by` tells objects with the same parts apart: a hash of it is added. So is one of the whole name where it
    has to be cut, so that two long names stay two.
    """
    name = "-".join(parts)
    if distinct_by:
        name = f"{name}-{_hash(distinct_by)}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - _HASH_CHARACTERS - 1].rstrip('-.')}-{_hash(name)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]
