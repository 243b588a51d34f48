"""What of a module's text goes into a cluster, and with which images."""

from collections.abc import Callable
from typing import Any

import pytest

from kube_runtime import InventoryEntry, parse_objects
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.module_installation.images import localized
from lifecycle_manager.module_installation.pull_secrets import DataNotInjected
from lifecycle_manager.module_installation.rendering import ObjectsForbidden, RenderedModule, Renderings
from lifecycle_manager.module_sources.parsing import ModuleObjects, ObjectsInvalid
from lifecycle_manager_api import ManagerReference, ObjectMeta, names
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
        "volumes": [{"name": "tools", "image": {"reference": images[0], "pullPolicy": "Always"}}, {"name": "empty"}],
    }


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        ("Deployment", lambda it: {"template": {"spec": it}}),
        ("ReplicationController", lambda it: {"template": {"spec": it}}),
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


def test_images_of_a_template_of_pods_are_those_of_the_landscape() -> None:
    def template(image: str) -> Document:
        return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": {"spec": pod(image)}}

    (found,) = localized(parse_objects(as_text([template("example.com/agent:1.0")])), [f"{OURS}/agent:1.0"])
    assert found.document == template(f"{OURS}/agent:1.0")


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
    volumes = [1, {"name": "x", "image": "y"}, {"name": "x", "image": {"reference": 1}}]
    odd = [workload("Pod", {"containers": "none", "volumes": volumes}), workload("Deployment", {"template": ["x"]})]
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


def test_objects_are_known_before_the_cluster_has_the_crds_delivered_with_them() -> None:
    found = Renderings().of(module(*operator("garden", "1.0.0")), ()).own_kinds
    assert found == (InventoryEntry(group_of("garden"), "v1", "GardenRule", "kyma-system", "garden-rule"),)


PULLED = Renderings(pull_secret="login")
REFERENCE = {"name": "login"}
VARIABLE = {"name": "SKR_IMG_PULL_SECRET", "value": "login"}


def runs(kind: str, name: str = "manager", **pod: Any) -> Document:
    metadata = {"name": name, "namespace": "garden"}
    spec = {"template": {"spec": {"containers": [{"name": "main"}, {"name": "proxy", "env": [LEVEL]}], **pod}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


LEVEL = {"name": "LEVEL", "value": "info"}
OTHER = {"name": "other"}


def pod_of(rendering: RenderedModule, name: str = "manager") -> Any:
    return next(each for each in rendering.objects if each.name == name).document["spec"]["template"]["spec"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_name_the_image_pull_secret_after_their_own(kind: str) -> None:
    pod = pod_of(PULLED.of(module(runs(kind, imagePullSecrets=[OTHER]))))
    assert pod["imagePullSecrets"] == [OTHER, REFERENCE]
    assert [each["env"] for each in pod["containers"]] == [[VARIABLE], [LEVEL, VARIABLE]]
    again = pod_of(PULLED.of(module(runs(kind, imagePullSecrets=[REFERENCE]))))
    assert again["imagePullSecrets"] == [REFERENCE]


@pytest.mark.parametrize("kind", ["DaemonSet", "Job"])
def test_pods_of_other_kinds_stay_as_they_are(kind: str) -> None:
    assert pod_of(PULLED.of(module(runs(kind)))) == runs(kind)["spec"]["template"]["spec"]


def test_only_what_runs_the_module_gets_the_name_in_a_variable() -> None:
    manager = ManagerReference(group="apps", version="v1", kind="Deployment", name="manager", namespace="garden")
    found = PULLED.of(module(runs("Deployment"), runs("Deployment", "worker")), manager=manager)
    assert VARIABLE in pod_of(found)["containers"][0]["env"]
    assert pod_of(found, "worker")["imagePullSecrets"] == [REFERENCE]
    assert "env" not in pod_of(found, "worker")["containers"][0]


def test_module_that_sets_the_variable_itself_is_refused() -> None:
    own = runs("Deployment", containers=[{"name": "main", "env": [{"name": "SKR_IMG_PULL_SECRET", "value": "mine"}]}])
    with pytest.raises(ObjectsInvalid, match="SKR_IMG_PULL_SECRET"):
        PULLED.of(module(own))


@pytest.mark.parametrize("odd", [{"containers": "none"}, {"containers": [1]}, {"imagePullSecrets": "x"}])
def test_pods_that_are_none_are_left_to_the_api_server(odd: Document) -> None:
    assert pod_of(PULLED.of(module(runs("Deployment", **odd))))["imagePullSecrets"] == [REFERENCE]


def test_no_module_may_have_the_image_pull_secret_itself() -> None:
    stolen = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "kyma-system"}}
    elsewhere = {**stolen, "metadata": {"name": "login", "namespace": "garden"}}
    with pytest.raises(ObjectsForbidden, match="login"):
        PULLED.of(module(stolen))
    assert len(PULLED.of(module(elsewhere)).objects) == 1
    assert len(Renderings().of(module(stolen)).objects) == 1


def secret_of(name: str, **annotations: str) -> Document:
    metadata = {"name": name, "namespace": "garden", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "MQ=="}, "stringData": {"a": "1"}}


def in_kcp(name: str, version: str = "1") -> Secret:
    return Secret(metadata=ObjectMeta(name=name, uid=name, resource_version=version), data={"b": "Mg=="})


def test_secret_that_asks_for_it_gets_the_data_of_the_one_in_kcp() -> None:
    thing = module(secret_of("pull", **{names.INJECT_DATA_FROM_KCP: "true"}), secret_of("own"))
    asking, own = Renderings().of(thing, data=[in_kcp("pull"), in_kcp("own")]).objects
    assert (asking.document["data"], "stringData" in asking.document) == ({"b": "Mg=="}, False)
    assert own.document["data"] == {"a": "MQ=="}


def test_other_version_of_the_data_is_another_rendering() -> None:
    thing = module(secret_of("pull", **{names.INJECT_DATA_FROM_KCP: "true"}))
    one, other = (Renderings().of(thing, data=[in_kcp("pull", version)]) for version in "12")
    assert one.fingerprint != other.fingerprint


def test_data_that_kcp_does_not_have_for_the_module_are_an_error() -> None:
    with pytest.raises(DataNotInjected, match="module-name=deployer"):
        Renderings().of(module(secret_of("pull", **{names.INJECT_DATA_FROM_KCP: "true"})), data=[in_kcp("other")])


def test_module_without_a_right_to_data_keeps_its_own() -> None:
    (kept,) = Renderings().of(module(secret_of("pull", **{names.INJECT_DATA_FROM_KCP: "true"}))).objects
    assert kept.document["data"] == {"a": "MQ=="}
