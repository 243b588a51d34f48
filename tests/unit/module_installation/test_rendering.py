"""What of a module's text goes into a cluster, and with which images."""

from collections.abc import Callable

import pytest

from kube_runtime import InventoryEntry, parse_objects
from lifecycle_manager.module_installation.images import localized
from lifecycle_manager.module_installation.rendering import ObjectsForbidden, Renderings
from lifecycle_manager.oci import ModuleObjects
from tests.modules import Document, as_text, group_of, operator

OURS = "eu.registry.example.com/restricted"


def module(*documents: Document) -> ModuleObjects:
    return ModuleObjects("sha256:1", parse_objects(as_text(documents)))


def workload(kind: str, spec: Document) -> Document:
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


def pod(*images: str) -> Document:
    variable = {"name": "AGENT", "value": images[0]}
    return {
        "initContainers": [{"name": "init", "image": images[0]}],
        "containers": [{"name": "main", "image": images[-1], "env": [variable, {"name": "LEVEL", "value": "info"}]}],
    }


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        ("Deployment", lambda it: {"template": {"spec": it}}),
        ("CronJob", lambda it: {"jobTemplate": {"spec": {"template": {"spec": it}}}}),
        ("Pod", lambda it: it),
    ],
)
def test_images_of_the_landscape_take_the_place_of_the_same_ones_elsewhere(
    kind: str, wrap: Callable[[Document], Document]
) -> None:
    before = workload(kind, wrap(pod("registry.example.com/prod/agent:1.0", "docker.io/other:2.0")))
    after = workload(kind, wrap(pod(f"{OURS}/agent:1.0", "docker.io/other:2.0")))
    (found,) = localized(parse_objects(as_text([before])), [f"{OURS}/agent:1.0", f"{OURS}/other:3.0"])
    assert found.document == after


def test_image_without_a_tag_is_identified_by_its_digest() -> None:
    digest = f"sha256:{'a' * 64}"
    objects = parse_objects(as_text([workload("Pod", pod(f"registry.example.com/agent@{digest}"))]))
    (found,) = localized(objects, [f"{OURS}/agent@{digest}"])
    assert found.document["spec"]["containers"][0]["image"] == f"{OURS}/agent@{digest}"


def test_objects_without_images_are_shared_as_they_are() -> None:
    objects = parse_objects(as_text(operator("garden", "1.0.0")))
    found = localized(objects, [f"{OURS}/nothing-of-these:1.0"])
    changed = [each.kind for each, before in zip(found, objects, strict=True) if each is not before]
    assert set(changed) <= {"Deployment", "DaemonSet", "CronJob"}


def test_thing_that_looks_like_a_pod_and_is_none_is_left_as_it_is() -> None:
    odd = [workload("Pod", {"containers": "none"}), workload("Deployment", {"template": ["x"]})]
    objects = parse_objects(as_text(odd))
    assert [each.document for each in localized(objects, [f"{OURS}/a:1"])] == odd


def test_module_is_rendered_once_for_all_clusters_that_get_it_alike() -> None:
    renderings, thing = Renderings(), module(*operator("garden", "1.0.0"))
    one = renderings.of(thing, ())
    assert renderings.of(thing, ()) is one
    assert renderings.of(thing, (f"{OURS}/garden-manager:1.0.0",)) is not one


def test_our_namespace_is_left_out_so_that_it_does_not_go_with_a_module() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kyma-system"}}
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "garden-system"}}
    assert [each.name for each in Renderings().of(module(namespace, other), ()).objects] == ["garden-system"]


def test_object_of_the_lifecycle_manager_itself_is_refused() -> None:
    watcher = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "skr-webhook-tls"}}
    with pytest.raises(ObjectsForbidden, match="skr-webhook-tls"):
        Renderings().of(module(watcher), ())


def test_objects_of_kinds_that_come_along_are_known_before_the_cluster_knows_the_kinds() -> None:
    found = Renderings().of(module(*operator("garden", "1.0.0")), ()).own_kinds
    assert found == (InventoryEntry(group_of("garden"), "v1", "GardenRule", "kyma-system", "garden-rule"),)
