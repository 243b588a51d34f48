"""What user clusters get of the control plane's definition of Kymas."""

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

import pytest
from lifecycle_manager.kyma.definition import KymaDefinitions, brings_other, brought, digest_of

from kube_runtime import Change, JsonObject, ObjectKey
from kube_runtime.informer.cache import Cache
from kube_simulation import Refuse, Refused
from lifecycle_manager.informers import Informers
from lifecycle_manager.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS
from lifecycle_manager_api import Kyma, crds
from tests.waiting import eventually
from tests.world import open_world

KEY = ObjectKey("", KYMAS.plural_name)
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"caBundle": "Q0E=", "service": {"namespace": "kcp-system", "name": "conversion"}},
        "conversionReviewVersions": ["v1"],
    },
}


def stored() -> JsonObject:
    """Return the definition as a control plane holds it after years of tools and administrators."""
    definition = copy.deepcopy(crds.crd_for(Kyma))
    definition["metadata"] |= {
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
    definition["spec"] |= {"conversion": WEBHOOK, "preserveUnknownFields": False}
    return {**definition, "status": {"storedVersions": ["v1beta1", "v1beta2"]}}


def described(text: str) -> JsonObject:
    """Return the definition with another description of one field."""
    definition = stored()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = text
    return definition


def test_definition_goes_without_what_the_control_plane_and_its_tools_have_added() -> None:
    assert brought(stored()) == crds.crd_for(Kyma)


def test_versions_go_as_they_are_served_and_stored_in_the_control_plane() -> None:
    definition = stored()
    current, before = definition["spec"]["versions"]
    current["storage"], before["served"], before["storage"] = False, True, True
    versions = brought(definition)["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1beta2", True, False),
        ("v1beta1", True, True),
    ]


def test_digest_is_of_what_is_brought_in_whatever_order_it_is_written() -> None:
    backwards = dict(reversed(brought(stored()).items()))
    assert digest_of(backwards) == digest_of(crds.crd_for(Kyma))
    assert digest_of(brought(described("Something else."))) != digest_of(crds.crd_for(Kyma))


@pytest.mark.parametrize("touched", ["metadata", "status", "conversion"])
def test_what_is_not_brought_makes_no_other_definition(touched: str) -> None:
    changed = stored()
    changes: Any = {
        "metadata": lambda: changed["metadata"].update(labels={}, annotations={}, resourceVersion="100"),
        "status": lambda: changed.update(status={}),
        "conversion": lambda: changed["spec"].update(conversion={"strategy": "None"}),
    }
    changes[touched]()
    assert changed != stored()
    assert not brings_other(Change(stored(), changed))


def test_definition_is_another_one_when_it_comes_or_changes_and_not_when_it_goes() -> None:
    assert brings_other(Change(None, stored()))
    assert brings_other(Change(stored(), described("Something else.")))
    assert not brings_other(Change(stored(), None))


def test_definition_is_made_once_for_each_state_of_the_cache() -> None:
    cache: Cache[JsonObject] = Cache({})
    informer: Any = SimpleNamespace(cache=cache)
    definitions = KymaDefinitions(informer)
    cache.put(KEY, stored())
    first = definitions.current()
    assert definitions.current() is first
    cache.put(KEY, described("Something else."))
    assert definitions.current().digest != first.digest


def test_definition_of_this_package_stands_in_for_one_that_can_not_be_seen_and_is_known_for_it() -> None:
    informer: Any = SimpleNamespace(cache=Cache[JsonObject]({}))
    definition = KymaDefinitions(informer).current()
    assert (definition.document, definition.digest) == (crds.crd_for(Kyma), "")


async def test_of_all_definitions_in_the_control_plane_that_of_kymas_is_followed() -> None:
    async with open_world() as world, asyncio.TaskGroup() as tasks:
        informer = Informers.on(world.kcp).kyma_definitions
        changes: list[bool] = []
        following = tasks.create_task(informer.run())
        await informer.wait_synced(60)
        informer.on_change(lambda change: changes.append(brings_other(change)), replay=False)
        assert informer.cache.keys() == (KEY,)
        other = {"spec": {"names": {"shortNames": ["other"]}}}
        await world.kcp.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, f"manifests.{KYMAS.group}", other)
        await world.change_crd({"metadata": {"labels": {"touched": "true"}}})
        await world.change_crd(other)
        await eventually(lambda: len(changes) == 2)
        assert changes == [False, True]
        following.cancel()


async def test_process_that_has_no_right_to_see_the_definition_begins_without_it_and_sees_it_once_it_has() -> None:
    forbidden = Refused(403, "Forbidden", "not for you")
    refuse = Refuse(lambda request: CUSTOM_RESOURCE_DEFINITIONS.plural in request.path, refused=forbidden)
    async with open_world() as world, asyncio.TaskGroup() as tasks:
        informers = Informers.on(world.kcp)
        with world.cluster("kcp").ruled_by(refuse):
            following = informers.start_in(tasks)
            await informers.wait_synced(60, definition_seconds=0.1)
            assert informers.synced
            assert informers.kyma_definitions.cache.keys() == ()
        await informers.kyma_definitions.wait_synced(60)
        assert informers.kyma_definitions.cache.keys() == (KEY,)
        for task in following:
            task.cancel()
