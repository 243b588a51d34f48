"""CustomResourceDefinitions of kinds that are declared as classes."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest

from kube_crds import AGE, Column, Conditions, CustomResource, Struct, crd_of, schema, schema_of
from kube_runtime import Client, JsonObject, KubeconfigPolicy, ObjectKey, Resource, load_yaml
from kube_simulation import serve_simulation

CRDS = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)


class SiteSpec(Struct, frozen=True, kw_only=True):
    text: str
    """What the site
    shows."""
    share: float = 0.5
    replicas: Annotated[int, schema(minimum=1)] = 1


class SiteStatus(Struct, frozen=True, kw_only=True):
    conditions: Conditions = ()


class Site(CustomResource, frozen=True, kw_only=True):
    """A web site."""

    GROUP: ClassVar[str] = "example.com"
    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("Text", ".spec.text", wide=True), AGE)

    spec: SiteSpec
    status: SiteStatus = SiteStatus()


class Proxy(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "example.com"
    VERSION: ClassVar[str] = "v1beta1"
    PLURAL: ClassVar[str] = "proxies"
    NAMESPACED: ClassVar[bool] = False
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("px",)


def _version(crd: JsonObject) -> JsonObject:
    (version,) = crd["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def test_crd_is_generated_from_a_class() -> None:
    crd = crd_of(Site)
    version = _version(crd)
    fields = version["schema"]["openAPIV3Schema"]

    assert crd["metadata"] == {"name": "sites.example.com"}
    assert crd["spec"]["names"] == {"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"}
    assert (crd["spec"]["scope"], version["name"], version["subresources"]) == ("Namespaced", "v1", {"status": {}})
    assert (fields["description"], fields["required"]) == ("A web site.", ["spec"])
    assert fields["properties"]["spec"] == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What the site shows."},
            "share": {"type": "number"},
            "replicas": {"type": "integer", "format": "int64", "minimum": 1},
        },
        "required": ["text"],
    }
    assert version["additionalPrinterColumns"][0] == {
        "name": "Text",
        "type": "string",
        "jsonPath": ".spec.text",
        "priority": 1,
    }


class Listing(Struct, frozen=True, kw_only=True):
    hosts: list[str]
    ports: tuple[Literal[80, 443], ...] = ()


class Odd(Struct, frozen=True, kw_only=True):
    size: int | float | str = 0


class Wild(Struct, frozen=True, kw_only=True):
    odd: Odd = Odd()
    anything: Any = None


def test_list_is_an_array_and_a_literal_of_the_type_of_its_values() -> None:
    assert schema_of(Listing)["properties"] == {
        "hosts": {"type": "array", "items": {"type": "string"}},
        "ports": {"type": "array", "items": {"type": "integer", "enum": [80, 443]}},
    }


@pytest.mark.parametrize(("kind", "field"), [(Odd, "Odd.size"), (Wild, "Odd.size")])
def test_field_of_a_type_without_a_schema_is_named(kind: type[Struct], field: str) -> None:
    with pytest.raises(TypeError, match=f"{field}: there is no schema for the type"):
        schema_of(kind)


def test_names_scope_and_version_may_be_declared() -> None:
    crd = crd_of(Proxy)

    assert crd["metadata"] == {"name": "proxies.example.com"}
    assert crd["spec"]["names"]["shortNames"] == ["px"]
    assert (crd["spec"]["scope"], _version(crd)["name"]) == ("Cluster", "v1beta1")
    assert _version(crd)["subresources"] == {}


async def test_objects_of_a_kind_are_read_as_its_class() -> None:
    async with serve_simulation() as simulation:
        kubeconfig, policy = simulation.cluster("one").kubeconfig, KubeconfigPolicy(allow_insecure=True)
        async with await Client.from_kubeconfig(kubeconfig, policy=policy) as client:
            await client.create(CRDS, crd_of(Site), field_manager="me")
            sites = Resource.of(Site)
            site = Site(spec=SiteSpec(text="hello"))

            created = await client.apply(sites, "one", site, "default", field_manager="me")

    assert sites.key_of(created) == ObjectKey("default", "one")
    assert (created.kind, created.spec, created.metadata.generation) == ("Site", site.spec, 1)


def test_example_in_the_readme_prints_its_crd_without_a_source() -> None:
    (program,) = (
        each
        for each in re.findall(r"```python\n(.*?)```", Path("libraries/kube_crds/README.md").read_text(), re.DOTALL)
        if "crd_of" in each
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, capture_output=True, text=True)

    assert load_yaml(done.stdout)["metadata"] == {"name": "sites.example.com"}
