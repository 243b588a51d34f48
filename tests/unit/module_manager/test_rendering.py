"""From the text of a Module CR to the text of a SyncResource."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kube_runtime import parse_objects
from kyma_module_manager import ModuleContext, ModuleCrUnreadable, ObjectsRefused, module_manager
from kyma_module_manager.rendering import LARGEST_TEXT_BYTES, decode_module_cr, render, write_down
from lifecycle_manager_api import ModuleConfig, ObjectMeta


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


def test_module_cr_is_left_as_it_is_for_a_manager_that_wants_a_mapping() -> None:
    assert decode_module_cr(dict, WINDOW)["spec"] == {"width": 3}


def test_module_cr_that_does_not_fit_says_where() -> None:
    with pytest.raises(ModuleCrUnreadable, match=r"does not fit Window: .*\$\.spec\.width"):
        decode_module_cr(Window, WINDOW.replace("3", "wide"))


@pytest.mark.parametrize("text", ["", "a: [", "- a\n- b\n", "a: 1\na: 2\n"])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ModuleCrUnreadable):
        decode_module_cr(dict, text)


def test_objects_become_documents_that_kubernetes_reads_back() -> None:
    rendering = write_down([thing("one", data={"time": "12:30:45", "yes": "no"}), thing("two")])

    read = parse_objects(rendering.text)

    assert [each.name for each in read] == ["one", "two"]
    assert read[0].document["data"] == {"time": "12:30:45", "yes": "no"}


def test_structs_are_objects_too() -> None:
    class Metadata(msgspec.Struct):
        name: str

    class Pod(msgspec.Struct, rename="camel"):
        metadata: Metadata
        api_version: str = "v1"
        kind: str = "Pod"

    assert write_down([Pod(Metadata("one"))]).objects[0]["apiVersion"] == "v1"


def test_no_objects_are_an_empty_text() -> None:
    assert write_down([]).text == ""


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}, r"metadata\.name"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, r"metadata\.name"),
    ],
)
def test_object_without_identity_is_refused_by_its_index(broken: dict[str, Any], field: str) -> None:
    with pytest.raises(ObjectsRefused, match=f"object 1 has no {field}"):
        write_down([thing(), broken])


def test_same_object_twice_is_refused_whatever_its_version() -> None:
    first = thing() | {"apiVersion": "apps/v1"}
    second = thing() | {"apiVersion": "apps/v1beta2"}

    with pytest.raises(ObjectsRefused, match="objects 0 and 1 are the same one: ConfigMap default/thing"):
        write_down([first, second])


def test_more_than_fits_is_refused() -> None:
    with pytest.raises(ObjectsRefused, match="more than the"):
        write_down([thing(data={"text": "x" * LARGEST_TEXT_BYTES})])


async def test_rendering_twice_gives_the_same_text(make_config: Callable[..., ModuleConfig]) -> None:
    @module_manager("cloud-resources", crd=dict)
    def objects(config: dict[str, Any]) -> list[dict[str, Any]]:
        return [thing(data={"server": config["spec"]["nfsVolumes"][0]["server"]})]

    context = ModuleContext(make_config())

    assert (await render(objects, context)).text == (await render(objects, context)).text
