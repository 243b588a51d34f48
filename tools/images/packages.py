"""The list of an image's packages (SBOM) as SPDX: those of Debian below, those of Python in the program."""

import re
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from spdx_tools.spdx.model.actor import Actor, ActorType
from spdx_tools.spdx.model.document import CreationInfo, Document
from spdx_tools.spdx.model.package import ExternalPackageRef, ExternalPackageRefCategory, Package
from spdx_tools.spdx.model.relationship import Relationship, RelationshipType
from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion
from spdx_tools.spdx.writer.json.json_writer import write_document_to_file

NAMESPACE = "https://kyma-project.io/spdx"


def write_packages(path: Path, *, image: str, digest: str, installed: Path, status: str, created: datetime) -> int:
    """Write the list of an image, validated, and return the number of its packages."""
    found = [*_debian(status), *_python(installed)]
    whole = _package("SPDXRef-image", image, digest, None)
    listed = [_package(f"SPDXRef-{number}", *each) for number, each in enumerate(found, 1)]
    document = Document(
        CreationInfo(
            spdx_version="SPDX-2.3",
            spdx_id="SPDXRef-DOCUMENT",
            name=image,
            document_namespace=f"{NAMESPACE}/{image}/{digest.removeprefix('sha256:')}",
            creators=[Actor(ActorType.TOOL, "make-images")],
            created=created,
        ),
        packages=[whole, *listed],
        relationships=[
            Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, whole.spdx_id),
            *(Relationship(whole.spdx_id, RelationshipType.CONTAINS, each.spdx_id) for each in listed),
        ],
    )
    write_document_to_file(document, str(path), validate=True)
    return len(listed)


def _package(identity: str, name: str, version: str, locator: str | None) -> Package:
    purl = ExternalPackageRefCategory.PACKAGE_MANAGER
    return Package(
        spdx_id=identity,
        name=name,
        version=version,
        download_location=SpdxNoAssertion(),
        files_analyzed=False,
        external_references=[ExternalPackageRef(purl, "purl", locator)] if locator else [],
    )


def _python(installed: Path) -> Iterator[tuple[str, str, str]]:
    folders = [str(path) for path in installed.glob("lib/python*/site-packages")]
    found: list[Distribution] = sorted(distributions(path=folders), key=lambda each: each.name.lower())
    for each in found:
        yield each.name, each.version, f"pkg:pypi/{re.sub('[-_.]+', '-', each.name).lower()}@{each.version}"


def _debian(status: str) -> Iterator[tuple[str, str, str]]:
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            name, version = fields["Package"], fields["Version"]
            yield name, version, f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}"
