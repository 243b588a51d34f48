"""`klm adopt --back`: what each object needs to be the former version's own again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Resource
from kube_simulation import NeverAnswer, Refuse, Refused
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_takeover.adoption import back
from kyma_takeover.adoption.cluster import report_of
from kyma_takeover.adoption.deployment import REPLICAS_BEFORE
from kyma_takeover.adoption.giving_back import GivingBack
from kyma_takeover.adoption.reading import bare
from kyma_takeover.adoption.steps import EVERY_VERSION, AdoptionScope, AdoptionSteps
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MODULE_TEMPLATES,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.watcher_certificates.cert_manager import CERTIFICATES
from lifecycle_manager.watcher_certificates.tls_secret import CERTIFICATE_PURPOSE
from lifecycle_manager_api import ObjectMeta, SkrRecords, names
from tests import builders
from tests.kinds import DEPLOYMENTS
from tests.waiting import eventually
from tests.world import KCP, NO_API, PERMISSIVE, World, open_world

MANIFEST = builders.manifest("keda")
KEY = f"{KCP}/{MANIFEST.metadata.name}"
OURS = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.MODULE_NAME: "keda", "app": "keda"}
SKIP = names.SKIP_RECONCILIATION
STATUS = {"subresource": "status"}
SPLIT = {"example.com/by": "python"}


def applied(manager: str, *fields: str) -> dict[str, Any]:
    owned: dict[str, Any] = {f"f:{each}": {} for each in fields}
    return {"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": owned}


def live(labels: dict[str, str], annotations: dict[str, str], *fields: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "resourceVersion": "7", "labels": labels, "annotations": annotations}
    return {"metadata": {**metadata, "managedFields": list(fields)}}


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({names.MANAGED_BY: "kyma"}, {names.DEPRECATED_OWNED_BY: KEY}),
        ({}, {names.OWNED_BY: KEY}),
        (OURS, {names.OWNED_BY: f"{KCP}/another-module"}),
    ],
)
def test_object_of_others_is_left_alone(labels: dict[str, str], annotations: dict[str, str]) -> None:
    assert back.of_module_object(live(labels, annotations), MANIFEST) is None


def test_status_of_a_manifest_goes_back_to_its_field_manager_and_its_spec_stays() -> None:
    spec, ours = applied("lifecycle-manager", "spec"), applied("lifecycle-manager", "status") | STATUS
    former = applied("declarative.kyma-project.io/applier", "synced") | STATUS
    patch = back.of_manifest(live({}, {}, spec, former, ours))
    assert patch is not None
    merged = applied("declarative.kyma-project.io/applier", "synced", "status") | STATUS
    assert patch["metadata"] == {"managedFields": [spec, merged], "resourceVersion": "7"}
    assert back.of_manifest(live({}, {}, spec, merged)) is None


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.kcp.apply(KYMAS, "demo", kyma_document({}), KCP, field_manager="test")
        status = {"records": {"watcher": "r"}, "conditions": [builders.condition("SKRReachable", "R", "m")]}
        await world.kcp.merge_patch(KYMAS, "demo", {"status": status}, KCP, subresource="status", field_manager="test")
        labels = {names.KYMA_NAME: "demo", names.PURPOSE: CERTIFICATE_PURPOSE}
        secret = {"metadata": {"name": "demo-webhook-tls", "labels": labels}}
        await world.kcp.apply(SECRETS, "demo-webhook-tls", secret, KCP, field_manager="test")
        yield world


def kyma_document(annotations: dict[str, str], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "demo", "annotations": annotations, "labels": labels}, "spec": {"channel": "regular"}}


def steps_of(world: World, *, answer: bool = True, split: bool = True) -> AdoptionSteps:
    subjects = AdoptionScope(("demo",), split=SPLIT) if split else AdoptionScope()
    return AdoptionSteps(
        world.kcp, Screen(), subjects, lambda _: answer, names.KCP_LEASE_NAMESPACE, where_possible=True
    )


async def metadata(world: World) -> ObjectMeta:
    return (await world.kcp.get(KYMAS, "demo", KCP)).metadata


async def test_control_plane_is_given_back_although_the_cluster_can_not_be_read(world: World) -> None:
    with pytest.raises(Problem, match="no access to the cluster of Kyma demo"):
        await GivingBack(world.kcp).kyma(await world.kcp.get(KYMAS, "demo", KCP))
    assert (await world.kcp.list(SECRETS, KCP)).items == ()
    status = (await world.kcp.get(KYMAS, "demo", KCP)).status
    assert (status.records, status.conditions) == (SkrRecords(), ())


async def test_control_plane_is_given_back_although_a_cluster_answers_nonsense(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def misread(*_: object) -> int:
        raise LookupError("metadata")

    await world.register("other")
    labels = {"labels": {names.KYMA_NAME: "other"}}
    await world.kcp.merge_patch(SECRETS, "demo-webhook-tls", {"metadata": labels}, KCP, field_manager="test")
    monkeypatch.setattr(GivingBack, "_cluster", misread)
    with pytest.raises(LookupError):
        await GivingBack(world.kcp, PERMISSIVE).kyma(await world.kcp.get(KYMAS, "other", KCP))
    assert "demo-webhook-tls" not in {each.metadata.name for each in (await world.kcp.list(SECRETS, KCP)).items}


async def test_records_of_a_cluster_are_gone_before_anything_of_it_is_given_back(world: World) -> None:
    unanswered = NeverAnswer(lambda request: request.kind is not None and request.kind.plural == SECRETS.plural)
    world.cluster("kcp").add_rule(unanswered)
    giving = asyncio.create_task(GivingBack(world.kcp).kyma(await world.kcp.get(KYMAS, "demo", KCP)))
    await eventually(lambda: unanswered.seen > 0, what="the access to the cluster is asked for")
    giving.cancel()  # as a process that is killed there
    await asyncio.wait([giving])
    assert (await world.kcp.get(KYMAS, "demo", KCP)).status.records == SkrRecords()


async def test_certificate_that_cert_manager_would_issue_again_is_deleted(world: World) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": CERTIFICATES.group,
        "scope": "Namespaced",
        "names": {"plural": CERTIFICATES.plural, "singular": "certificate", "kind": CERTIFICATES.kind},
        "versions": [{"name": CERTIFICATES.version, "served": True, "storage": True, "schema": schema}],
    }
    crd = {"metadata": {"name": f"{CERTIFICATES.plural}.{CERTIFICATES.group}"}, "spec": spec}
    await world.kcp.create(CUSTOM_RESOURCE_DEFINITIONS, crd, field_manager="test")
    await world.kcp.create(CERTIFICATES, {"metadata": {"name": "demo-webhook-tls"}}, KCP, field_manager="test")
    with pytest.raises(Problem, match="no access"):
        await GivingBack(world.kcp).kyma(await world.kcp.get(KYMAS, "demo", KCP))
    assert (await world.kcp.list(CERTIFICATES, KCP)).items == ()
    assert (await world.kcp.list(SECRETS, KCP)).items == ()


async def test_cluster_that_can_not_be_read_is_named_and_delays_no_other_step(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = {names.SKIPPED_BY: names.FORMER_VERSION}
    await world.kcp.apply(KYMAS, "demo", kyma_document(marks, **{SKIP: "true"}, **SPLIT), KCP, field_manager="test")
    assert await steps_of(world).back() == 1
    assert "not given back: Kyma demo: no access" in capsys.readouterr().out
    found = await metadata(world)
    assert (dict(found.labels), dict(found.annotations)) == ({}, {})


async def test_label_that_selects_a_kyma_for_another_version_stays(world: World) -> None:
    labels = {"example.com/by": "go"}
    await world.kcp.apply(KYMAS, "demo", kyma_document({}, **labels), KCP, field_manager="test")
    assert await steps_of(world).back() == 1
    assert dict((await metadata(world)).labels) == labels


async def test_pause_stays_one_there_and_back(world: World) -> None:
    await world.kcp.apply(KYMAS, "demo", kyma_document({}, **{SKIP: "true"}), KCP, field_manager="test")
    assert await steps_of(world).adopt() == 0
    found = await metadata(world)
    assert found.is_paused
    assert found.is_kept_from_former_version
    assert await steps_of(world).back() == 1  # the cluster has no access Secret
    found = await metadata(world)
    assert found.is_paused
    assert names.SKIPPED_BY not in found.annotations


async def test_interrupted_way_back_leaves_the_kyma_to_neither_version_and_is_found_again(world: World) -> None:
    assert await steps_of(world).adopt() == 0
    subjects = AdoptionScope(selector="example.com/by=python", split=SPLIT)
    steps = replace(steps_of(world), subjects=subjects, confirm=lambda question: "objects" not in question)
    with pytest.raises(Problem, match="run it again: it continues from here"):
        await steps.back()
    found = await metadata(world)
    assert found.annotations[names.SKIPPED_BY] == EVERY_VERSION
    assert (found.labels[SKIP], found.is_kept_from_former_version) == ("true", False)
    again = replace(steps, confirm=lambda _: True)
    assert await again.back() == 1
    assert dict((await metadata(world)).labels) == {}


def strict(world: World) -> AdoptionSteps:
    return replace(steps_of(world, split=False), where_possible=False)


async def test_nothing_changes_while_one_cluster_of_several_can_not_be_given_back(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.register("other")
    since = world.requests
    with pytest.raises(Problem, match="1 cluster of 2 can't be given back, so nothing was changed"):
        await replace(strict(world), policy=PERMISSIVE).back()
    assert "can't be given back: Kyma demo: no access" in capsys.readouterr().out
    assert written(world, "kcp", since) == written(world, "other", since) == []


async def test_insecure_kubeconfig_is_accepted_by_option_alone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.kcp.delete(KYMAS, "demo", KCP)
    await world.register("other")
    since = world.requests
    with pytest.raises(Problem, match="1 cluster of 1 can't be given back"):
        await strict(world).back()
    assert "switches TLS verification off" in capsys.readouterr().out
    assert written(world, "kcp", since) == written(world, "other", since) == []
    assert await replace(strict(world), policy=PERMISSIVE).back() == 0


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (NO_API, ""),
        (Refused(404, "NotFound", "page not found"), "the cluster does not know the kind SelfSubjectAccessReview"),
    ],
)
async def test_cluster_that_refuses_or_serves_nothing_is_named_before_anything_changes(
    world: World, capsys: pytest.CaptureFixture[str], refused: Refused, why: str
) -> None:
    await world.kcp.delete(KYMAS, "demo", KCP)
    await world.register("other")
    with world.cluster("other").ruled_by(Refuse(refused=refused)):
        report = await report_of(world.kcp, "other", PERMISSIVE)
        with pytest.raises(Problem, match="1 cluster of 1"):
            await replace(strict(world), policy=PERMISSIVE).back()
    assert report.error
    assert f"can't be given back: Kyma other: {why}" in capsys.readouterr().out


def written(world: World, cluster: str, since: int) -> list[str]:
    """Return the paths that were written; reviews of rights are none."""
    paths = [each.path for each in world.writes_to(cluster, since)]
    return [each for each in paths if not each.endswith("reviews")]


async def test_nothing_is_written_without_an_answer(world: World) -> None:
    before = await metadata(world)
    for split in (True, False):
        unanswered = steps_of(world, answer=False, split=split)
        for steps in (unanswered.adopt, unanswered.back):
            with suppress(Problem):
                await steps()
    assert await metadata(world) == before
    assert [each.metadata.name for each in (await world.kcp.list(SECRETS, KCP)).items] == ["demo-webhook-tls"]


async def test_labels_that_no_kyma_has_are_named_and_nothing_is_restarted(world: World) -> None:
    scope = AdoptionScope(selector="example.com/batch=7", split=SPLIT)
    for steps in (replace(steps_of(world), subjects=scope).adopt, replace(steps_of(world), subjects=scope).back):
        with pytest.raises(Problem, match=r"no Kyma in kcp-system has the labels 'example\.com/batch=7'"):
            await steps()


async def test_former_version_that_runs_nowhere_after_the_way_back_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": "manager", "image": "r/lifecycle-manager:1", "command": ["/manager"]}
    spec = {"replicas": 0, "template": {"spec": {"containers": [container]}}}
    document = {"metadata": {"name": "klm-controller-manager"}, "spec": spec}
    await world.kcp.apply(DEPLOYMENTS, "klm-controller-manager", document, KCP, field_manager="test")
    await steps_of(world, split=False).back()
    assert "no Deployment of the former version has replicas: scale it up" in capsys.readouterr().out
    note = {"metadata": {"annotations": {REPLICAS_BEFORE: "2"}}}
    await world.kcp.merge_patch(DEPLOYMENTS, "klm-controller-manager", note, KCP, field_manager="test")
    await steps_of(world, split=False).back()
    assert "no Deployment of the former version" not in capsys.readouterr().out


async def test_finalizer_of_this_version_leaves_sync_resources_of_the_kymas_alone(world: World) -> None:
    for kyma in ("demo", "other"):
        part = builders.as_written(builders.sync_resource(f"{kyma}-part", text="", kyma=kyma, module="m"))
        part["metadata"]["finalizers"] = [names.SYNC_RESOURCE_FINALIZER]
        await world.kcp.apply(SYNC_RESOURCES, f"{kyma}-part", part, KCP, field_manager="test")
    assert await GivingBack(world.kcp).sync_resources({"demo"}) == 1
    left = {each.spec.kyma: each.metadata.finalizers for each in (await world.kcp.list(SYNC_RESOURCES, KCP)).items}
    assert left == {"demo": (), "other": (names.SYNC_RESOURCE_FINALIZER,)}
    assert (await world.kcp.list(MANIFESTS, KCP)).items == ()


async def test_objects_that_do_not_fit_their_type_are_given_back_with_the_others(world: World) -> None:
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for crd in (await world.kcp.list(CUSTOM_RESOURCE_DEFINITIONS)).items:
        patch = {"spec": {"versions": [{**each, "schema": anything} for each in crd["spec"]["versions"]]}}
        name = crd["metadata"]["name"]
        await world.kcp.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, name, patch, field_manager="former")
    labels, kept = {names.KYMA_NAME: "demo", SKIP: "true"}, {names.SKIPPED_BY: names.FORMER_VERSION}
    unreadable: list[tuple[Resource[Any], dict[str, Any], dict[str, Any]]] = [
        (KYMAS, {"channel": 7}, {"labels": SPLIT}),
        (MANIFESTS, {"version": 7}, {"annotations": kept, "labels": labels}),
        (MODULE_TEMPLATES, {"version": 7}, {"finalizers": [names.MANDATORY_FINALIZER]}),
        (SYNC_RESOURCES, {"kyma": "demo", "prune": "x"}, {"finalizers": [names.SYNC_RESOURCE_FINALIZER]}),
    ]
    for kind, spec, more in unreadable:
        metadata = {"namespace": KCP, "uid": "u", "name": "broken", **more}
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        world.cluster("kcp").restore([document])
    giving = GivingBack(world.kcp)
    assert (await giving.sync_resources({"demo"}), await giving.templates()) == (1, 1)
    steps = replace(steps_of(world), subjects=AdoptionScope(split=SPLIT))
    assert await steps.back() == 1
    left = {each.metadata.name: each.metadata for each in await world.kcp.list_metadata(bare(MANIFESTS), KCP)}
    assert not left["broken"].is_kept_from_former_version
    assert not (await world.kcp.get(RAW_KYMAS, "broken", KCP))["metadata"].get("labels")
