"""What SKRs get of the Kyma CRD in KCP."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from kube_runtime import Change, JsonObject, NotFound, NotServed, ObjectKey
from kube_runtime.informer.cache import Cache
from kube_simulation import Refuse, Refused
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, labelled_crd
from lifecycle_manager.kyma.crd import KymaCrds, copy_for_skr, crd_changed, digest_of
from lifecycle_manager_api import Kyma, crds
from tests.waiting import eventually
from tests.world import World, open_world

KEY = ObjectKey("", KYMAS.plural_name)
FORBIDDEN = Refused(403, "Forbidden", "not for you")
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"caBundle": "Q0E=", "service": {"namespace": "kcp-system", "name": "conversion"}},
        "conversionReviewVersions": ["v1"],
    },
}


def stored() -> JsonObject:
    """Return the CRD as KCP holds it after years of tools and administrators."""
    crd = copy.deepcopy(crds.crd_for(Kyma))
    crd["metadata"] |= {
        "uid": "7d1",
        "resourceVersion": "99",
        "generation": 4,
        "creationTimestamp": "2026-11-01T12:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "cert-manager.io/inject-ca-from": "kcp-system/serving",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "meta.helm.sh/release-name": "lifecycle-manager",
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1"}],
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
        "managedFields": [{"manager": "helm", "operation": "Update"}],
    }
    crd["spec"] |= {"conversion": WEBHOOK, "preserveUnknownFields": False}
    return {**crd, "status": {"storedVersions": ["v1beta1", "v1beta2"]}}


def described(text: str) -> JsonObject:
    crd = stored()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = text
    return crd


async def crd_in_skr(world: World) -> JsonObject | None:
    try:
        return await (await world.skr()).get(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name)
    except (NotFound, NotServed):
        return None


async def has_crd(world: World) -> bool:
    return await crd_in_skr(world) is not None


async def has_short_name(world: World, name: str) -> bool:
    crd = await crd_in_skr(world)
    return crd is not None and name in crd["spec"]["names"].get("shortNames", ())


async def records_crd(world: World) -> bool:
    return bool((await world.in_kcp()).status.records.kyma_crd)


def test_crd_is_copied_without_what_kcp_and_its_tools_have_added() -> None:
    assert copy_for_skr(stored()) == labelled_crd(crds.crd_for(Kyma))


def test_versions_are_copied_as_they_are_served_and_stored_in_kcp() -> None:
    crd = stored()
    current, before = crd["spec"]["versions"]
    current["storage"], before["served"], before["storage"] = False, True, True
    versions = copy_for_skr(crd)["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1beta2", True, False),
        ("v1beta1", True, True),
    ]


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    backwards = dict(reversed(copy_for_skr(stored()).items()))
    assert digest_of(backwards) == digest_of(labelled_crd(crds.crd_for(Kyma)))
    assert digest_of(copy_for_skr(described("Something else."))) != digest_of(labelled_crd(crds.crd_for(Kyma)))


@pytest.mark.parametrize("touched", ["metadata", "status", "conversion"])
def test_change_of_what_is_not_copied_is_none(touched: str) -> None:
    changed = stored()
    changes: Any = {
        "metadata": lambda: changed["metadata"].update(labels={}, annotations={}, resourceVersion="100"),
        "status": lambda: changed.update(status={}),
        "conversion": lambda: changed["spec"].update(conversion={"strategy": "None"}),
    }
    changes[touched]()
    assert changed != stored()
    assert not crd_changed(Change(stored(), changed))


def test_crd_changes_when_it_is_created_or_updated_and_not_when_it_is_deleted() -> None:
    assert crd_changed(Change(None, stored()))
    assert crd_changed(Change(stored(), described("Something else.")))
    assert not crd_changed(Change(stored(), None))


def test_crd_is_copied_once_for_each_state_of_the_cache() -> None:
    cache: Cache[JsonObject] = Cache()
    informer: Any = SimpleNamespace(cache=cache)
    crds = KymaCrds(informer)
    cache.put(KEY, stored())
    first = crds.current()
    assert crds.current() is first
    cache.put(KEY, described("Something else."))
    assert crds.current().digest != first.digest


def test_crd_of_this_package_is_used_without_digest_while_kcp_can_not_be_read() -> None:
    informer: Any = SimpleNamespace(cache=Cache[JsonObject]())
    crd = KymaCrds(informer).current()
    assert (crd.document, crd.digest) == (labelled_crd(crds.crd_for(Kyma)), "")


async def test_kymas_follow_their_own_crd_and_no_other() -> None:
    async with open_world() as world, world.running():
        await world.register()
        await eventually(lambda: records_crd(world), what="the SKR has KCP's CRD")
        before = world.requests
        other = {"spec": {"names": {"shortNames": ["other"]}}}
        await world.kcp.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, f"manifests.{KYMAS.group}", other)
        await world.change_crd({"metadata": {"labels": {"touched": "true"}}})
        await world.change_crd(other)
        await eventually(lambda: has_short_name(world, "other"), what="the SKR has the changed CRD")
        writes = [each for each in world.writes_to("demo", before) if each.name == KYMAS.plural_name]
        assert len(writes) == 1


async def test_without_rights_to_read_crds_kymas_get_that_of_this_package() -> None:
    refuse = Refuse(lambda request: CUSTOM_RESOURCE_DEFINITIONS.plural in request.path, refused=FORBIDDEN)
    async with open_world() as world:
        await world.register()
        world.cluster("kcp").add_rule(refuse)
        async with world.running():
            await eventually(lambda: has_crd(world), what="the SKR has a CRD")
            assert not (await world.in_kcp()).status.records.kyma_crd
            world.cluster("kcp").remove_rule(refuse)
            await eventually(lambda: records_crd(world), what="the SKR has KCP's CRD")
