"""Rendering the text of a Module CR to the text of a SyncResource."""

import threading
from typing import Any

import msgspec
import pytest

from kube_runtime import parse_objects
from kyma_module_manager import ModuleContext, ModuleCrUnreadable, ObjectsRefused, module_manager
from kyma_module_manager.rendering import decode_module_cr, encode_objects, render
from lifecycle_manager_api import ObjectMeta
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from tests.unit.module_manager.configs import make_config


class Size(msgspec.Struct, frozen=True):
    width: int


class Window(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: Size


WINDOW = "apiVersion: example.com/v1\nkind: Window\nmetadata:\n  name: north\nspec:\n  width: 3\n"


def thing(name: str = "thing", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        **more,
    }


def test_module_cr_is_decoded_into_the_type() -> None:
    assert decode_module_cr(Window, WINDOW).spec.width == 3


def test_module_cr_is_a_plain_document_for_a_manager_with_dict() -> None:
    assert decode_module_cr(dict, WINDOW)["spec"] == {"width": 3}


def test_module_cr_of_the_wrong_type_is_an_error_with_the_field() -> None:
    with pytest.raises(ModuleCrUnreadable, match=r"does not match Window: .*\$\.spec\.width"):
        decode_module_cr(Window, WINDOW.replace("3", "wide"))


@pytest.mark.parametrize("text", ["", "a: [", "- a\n- b\n", "a: 1\na: 2\n"])
def test_text_that_is_not_an_object_is_rejected(text: str) -> None:
    with pytest.raises(ModuleCrUnreadable):
        decode_module_cr(dict, text)


def test_encoded_objects_are_parsed_without_loss() -> None:
    rendering = encode_objects([thing("one", data={"time": "12:30:45", "yes": "no"}), thing("two")])

    read = parse_objects(rendering.text)

    assert [each.name for each in read] == ["one", "two"]
    assert read[0].document["data"] == {"time": "12:30:45", "yes": "no"}


def test_structs_are_encoded_as_objects() -> None:
    class Metadata(msgspec.Struct):
        name: str

    class Pod(msgspec.Struct, rename="camel"):
        metadata: Metadata
        api_version: str = "v1"
        kind: str = "Pod"

    assert encode_objects([Pod(Metadata("one"))]).objects[0]["apiVersion"] == "v1"


def test_text_without_objects_is_empty() -> None:
    assert encode_objects([]).text == ""


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "apiVersion is missing"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "kind is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}, r"metadata\.name is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "there is no metadata"),
        (thing(), r"ConfigMap default/thing \(v1\) stands in document 0 already"),
        (thing() | {"apiVersion": "v1beta2", "metadata": {"name": "thing"}}, "ConfigMap thing .* stands in document 0"),
    ],
)
def test_object_that_is_incomplete_or_a_duplicate_is_refused_with_its_index(broken: dict[str, Any], said: str) -> None:
    with pytest.raises(ObjectsRefused, match=f"object 1: {said}"):
        encode_objects([thing(), broken])


@pytest.mark.parametrize("metadata", [{"name": ".."}, {"name": "a", "namespace": "a/b"}])
def test_name_that_no_path_has_is_rejected_with_its_index(metadata: dict[str, Any]) -> None:
    with pytest.raises(ObjectsRefused, match=r"object 1: invalid metadata\.name(space)? "):
        encode_objects([thing(), thing() | {"metadata": metadata}])


def test_text_that_is_too_large_is_rejected() -> None:
    small, large = thing(), thing(data={"text": "<" * (MAX_TEXT_BYTES // 6)}) | {"metadata": {"name": "large"}}
    why = r"more than the maximum of 1048576; the largest is ConfigMap large \(v1\) with .*; move what does not depend"
    with pytest.raises(ObjectsRefused, match=why):
        encode_objects([small, large])


def test_text_that_is_too_large_as_yaml_is_json() -> None:
    value: Any = [0] * 10_000
    for _ in range(50):
        value = {"properties": value}
    documents = [thing(), thing(spec=value) | {"metadata": {"name": "deep"}}]

    text = encode_objects(documents).text

    assert text.startswith('{"apiVersion"')
    assert [each.document for each in parse_objects(text)] == documents


async def test_rendering_twice_gives_the_same_text() -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        return [thing(data={"server": config["spec"]["nfsVolumes"][0]["server"]})]

    context = ModuleContext(make_config())

    assert (await render(objects, context)).text == (await render(objects, context)).text


async def test_large_text_is_read_outside_the_event_loop() -> None:
    threads: list[int] = []

    class Recorded(msgspec.Struct):
        metadata: Any

        def __post_init__(self) -> None:
            threads.append(threading.get_ident())

    @module_manager("cloud-resources", crd=Recorded)
    def objects(_: Recorded) -> list[dict[str, Any]]:
        return [thing()]

    config = make_config()
    text = config.spec.resource + f"more: {'x' * 10_000}\n"
    large = msgspec.structs.replace(config, spec=msgspec.structs.replace(config.spec, resource=text))
    await render(objects, ModuleContext(config))
    await render(objects, ModuleContext(large))
    assert threads[0] == threading.get_ident()
    assert threads[1] != threading.get_ident()
