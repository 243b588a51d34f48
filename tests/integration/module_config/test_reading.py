"""Module CRs read from an API server: in the requested version, of any scope, and of kinds that it does not know."""

from contextlib import suppress
from typing import Any

import msgspec

from kube_runtime import Applier, Client, Resource, ResponseInvalid, dump_yaml, parse_objects
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config.reading import ModuleCr, find_all, find_some
from lifecycle_manager.module_config.texts import with_text
from tests.kinds import crd_of

GROUP = "reading.example.com"
TEAS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1", "Tea", "teas", namespaced=True)
POTS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1", "Pot", "pots", namespaced=False)
TEA = ModuleCrKind(f"{GROUP}/v1alpha1", "Tea", "default", "default")
POT = ModuleCrKind(f"{GROUP}/v1", "Pot", "", "default")
UNKNOWN = ModuleCrKind(f"{GROUP}/v1", "Saucer", "default", "default")


def any_kind(_: Resource[dict[str, Any]]) -> None:
    """Allow every kind."""


def crd(kind: str, scope: str, versions: tuple[str, ...]) -> str:
    return dump_yaml(crd_of(GROUP, kind, *versions, scope=scope))


def is_refused(read: ModuleCr | None) -> bool:
    """Tell whether a Module CR has a problem, as it was read or at the latest as it becomes a text."""
    assert read is not None
    return (read if read.problem is not None else with_text(read)).problem is not None


async def test_module_crs_are_read_in_the_version_of_the_template_and_in_any_scope(
    client: Client, namespace: str
) -> None:
    crds = crd("Tea", "Namespaced", ("v1", "v1alpha1")) + "---\n" + crd("Pot", "Cluster", ("v1",))
    applied = await Applier(client, field_manager="test").apply(parse_objects(crds))
    applied.raise_first_failure()
    await client.create(TEAS, {"metadata": {"name": "green"}, "spec": {"minutes": 3}}, namespace, field_manager="test")
    await client.create(POTS, {"metadata": {"name": f"pot-{namespace}"}}, field_manager="test")
    tea, pot = TEA.reference(namespace, "green"), POT.reference("", f"pot-{namespace}")

    everything = await find_all(client, (TEA, POT, UNKNOWN), any_kind)
    some = await find_some(
        client,
        (TEA, POT, UNKNOWN),
        [tea, TEA.reference(namespace, "black"), UNKNOWN.reference(namespace, "any")],
        any_kind,
    )

    assert everything.complete
    assert everything.default == TEA.default
    found = everything.found[tea]
    assert found is not None
    assert found.reference.api_version == f"{GROUP}/v1alpha1"
    content = msgspec.json.decode(found.raw)
    assert (content["apiVersion"], content["spec"]) == (f"{GROUP}/v1alpha1", {"minutes": 3})
    assert everything.found[pot] is not None
    assert {reference.name: item is not None for reference, item in some.found.items()} == {
        "green": True,
        "black": False,
    }
    assert not some.complete


async def test_deeply_nested_module_cr_hides_no_other(client: Client, namespace: str) -> None:
    """The API server takes nesting that the decoder of Python before 3.12 can't even skip."""
    applied = await Applier(client, field_manager="test").apply(parse_objects(crd("Cup", "Namespaced", ("v1",))))
    applied.raise_first_failure()
    cups: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1", "Cup", "cups", namespaced=True)
    kind = ModuleCrKind(f"{GROUP}/v1", "Cup", "default", "default")
    lists, objects = f"{'[' * 3000}{']' * 3000}", '{"a":' * 3000 + "1" + "}" * 3000
    specs = {"one": "1", "two": "2", "lists": lists, "objects": objects, "zulu": "3"}
    for name, spec in specs.items():
        document = {"metadata": {"name": name}, "spec": {"a": msgspec.Raw(spec.encode())}}
        with suppress(ResponseInvalid):  # the answer to the write has the nested object, too
            await client.create(cups, document, namespace, field_manager="test")
    everything = await find_all(client, (kind,), any_kind)
    found = {each.name: read for each, read in everything.found.items()}
    assert {"one", "two", "zulu"} <= found.keys()
    for name in ("lists", "objects"):
        assert is_refused(found[name]) if name in found else not everything.complete  # nothing is deleted
    nested = kind.reference(namespace, "lists")
    assert is_refused((await find_some(client, (kind,), [nested], any_kind)).found[nested])
