"""What of a project is generated: the CRD from a class, and files of the template, whose digests are recorded."""

import hashlib
from collections.abc import Mapping

import msgspec

from kube_crds import CustomResource, crd_of
from kube_runtime import dump_yaml

__all__ = ["CRD", "RECORD", "crd_text", "digest_of", "owned_by_template", "record_of", "record_text"]

RECORD = ".kyma-module.json"
CRD = "module/crd.yaml"


def owned_by_template(path: str) -> bool:
    """Tell whether a file is the template's, rather than the start of a team's own code."""
    return path == "Dockerfile" or path.startswith(("chart/", "wheels/"))


def crd_text(kind: type[CustomResource]) -> str:
    """Return the file with the CRD of a Module CR."""
    return f"# Generated from the class {kind.__name__} by klm module update.\n{dump_yaml(crd_of(kind))}"


def record_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the files that are the template's."""
    return {path: digest_of(text) for path, text in files.items() if owned_by_template(path)}


def record_text(record: Mapping[str, str]) -> str:
    """Return the file with the digests."""
    return msgspec.json.format(msgspec.json.encode(dict(record), order="sorted"), indent=2).decode() + "\n"


def digest_of(text: str) -> str:
    """Return the digest of a generated file."""
    return hashlib.sha256(text.encode()).hexdigest()
