"""A change in the control plane wakes the keys that it concerns, and no others."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import msgspec
from lifecycle_manager.controllers import Reconcilers
from lifecycle_manager.informers import Informers
from lifecycle_manager.wiring import Wiring

from kube_runtime import Change, ObjectKey, Priority
from lifecycle_manager.resources import DatedReleaseMeta, Secret
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, crds, names
from tests import builders

KCP = names.KCP_NAMESPACE
QUEUES = tuple(room.name for room in fields(Reconcilers))
ASKED = {"uses-regular": ("api", "regular"), "uses-fast": ("api", "fast"), "uses-another": ("nats", "regular")}
EVERYBODY = set(ASKED)


class Queue:
    """Notes which keys are woken, by the name in them."""

    def __init__(self) -> None:
        self.woken: dict[str, Priority] = {}

    def add(self, key: Any, priority: Priority = Priority.CHANGE) -> None:
        self.woken[getattr(key, "kyma", "") or key.name] = priority

    def add_after(self, key: Any, _seconds: float, priority: Priority) -> None:
        self.add(key, priority)


class Fleet:
    """Three Kymas with a module each, and the queues of their controllers."""

    def __init__(self) -> None:
        client: Any = None
        self.informers = Informers.on(client)
        self.queues = {name: Queue() for name in QUEUES}
        nothing: Any = SimpleNamespace(wake=lambda *_: None, key=ObjectKey(KCP, "authority"))
        reconcilers = SimpleNamespace(**dict.fromkeys(QUEUES, nothing))
        controllers: Any = SimpleNamespace(
            reconcilers=reconcilers, **{name: SimpleNamespace(queue=queue) for name, queue in self.queues.items()}
        )
        self.wiring = Wiring(self.informers, controllers)
        for kyma, (module, channel) in ASKED.items():
            template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": f"{module}-1.0.0"}}
            status = {"name": module, "channel": channel, "state": "Ready", "template": template}
            self._put(self.informers.kymas, builders.kyma(kyma, status={"modules": [status]}))
            self._put(self.informers.manifests, builders.manifest(module, kyma=kyma))
            self._put(self.informers.sync_resources, builders.sync_resource(f"{kyma}-sync", kyma=kyma, module=module))

    def _put(self, informer: Any, thing: Any) -> None:
        informer.cache.put(ObjectKey(KCP, thing.metadata.name), thing)

    def woken(self, queue: str, priority: Priority | None = None) -> set[str]:
        found = self.queues[queue].woken
        return {name for name, given in found.items() if priority in {None, given}}


def released(**given: Any) -> DatedReleaseMeta:
    return msgspec.convert(msgspec.to_builtins(builders.release("api", **given)), DatedReleaseMeta)


def test_version_bump_of_a_channel_wakes_the_kymas_that_use_it_before_the_catalogs_of_all() -> None:
    fleet = Fleet()
    fleet.wiring._release_changed(
        Change(released(regular="1.0.0", fast="1.0.0"), released(regular="1.0.0", fast="2.0.0"))
    )
    assert fleet.woken("kyma", Priority.CHANGE) == fleet.woken("kyma") == {"uses-fast"}
    assert fleet.woken("module_config") == {"uses-fast"}
    assert fleet.woken("catalog", Priority.RESYNC) == fleet.woken("catalog") == EVERYBODY
    assert fleet.woken("mandatory") == set()


def test_release_that_is_only_touched_wakes_nobody() -> None:
    fleet = Fleet()
    fleet.wiring._release_changed(
        Change(released(regular="1.0.0"), released(regular="1.0.0", metadata={"resourceVersion": "2"}))
    )
    assert not any(fleet.woken(queue) for queue in QUEUES)


def test_descriptor_that_was_looked_up_wakes_those_who_have_the_template_and_no_catalog() -> None:
    fleet = Fleet()
    fleet.wiring.descriptor_looked_up(builders.template("api", "1.0.0"))
    assert fleet.woken("kyma") == {name for name, (module, _) in ASKED.items() if module == "api"}
    assert fleet.woken("catalog") == fleet.woken("mandatory") == set()
    fleet.wiring.descriptor_looked_up(builders.template("warden", "1.0.0", mandatory=True))
    assert fleet.woken("mandatory") == EVERYBODY


def test_mandatory_version_and_the_template_of_it_wake_the_installations_and_no_catalog() -> None:
    fleet = Fleet()
    release = released(mandatory="2.0.0")
    fleet.wiring._release_changed(Change(released(mandatory="1.0.0"), release))
    assert (fleet.woken("mandatory"), fleet.woken("catalog")) == (EVERYBODY, set())
    fleet = Fleet()
    fleet._put(fleet.informers.releases, release)
    fleet.wiring._template_changed(Change(None, builders.template("api", "2.0.0")))
    assert (fleet.woken("mandatory"), fleet.woken("catalog")) == (EVERYBODY, set())
    assert fleet.woken("mandatory_retirement") == {"api-2.0.0"}


def test_release_that_makes_another_version_mandatory_has_its_templates_held_or_let_go() -> None:
    """They were there before, as a rule, and nothing else would tell that they are mandatory now."""
    fleet = Fleet()
    for module, version in (("api", "1.0.0"), ("api", "2.0.0"), ("nats", "1.0.0")):
        fleet._put(fleet.informers.templates, builders.template(module, version))
    fleet.wiring._release_changed(Change(None, released(mandatory="1.0.0")))
    assert fleet.woken("mandatory_retirement") == {"api", "api-1.0.0", "api-2.0.0"}


def test_template_that_becomes_mandatory_wakes_installations_and_catalogs() -> None:
    fleet = Fleet()
    chosen, mandatory = builders.template("api", "1.0.0"), builders.template("api", "1.0.0", mandatory=True)
    fleet.wiring._template_changed(Change(chosen, mandatory))
    assert fleet.woken("mandatory") == fleet.woken("catalog") == EVERYBODY
    assert fleet.woken("kyma") == {"uses-regular", "uses-fast"}


def test_definition_of_kymas_wakes_them_all_after_what_users_wait_for() -> None:
    before = crds.crd_for(Kyma)
    after = {**before, "spec": {**before["spec"], "names": {**before["spec"]["names"], "shortNames": ["ky"]}}}
    for change in (Change(None, before), Change(before, after), Change(after, before)):
        fleet = Fleet()
        fleet.wiring._kyma_definition_changed(change)
        assert fleet.woken("kyma", Priority.RESYNC) == fleet.woken("kyma") == EVERYBODY
        assert not any(fleet.woken(queue) for queue in set(QUEUES) - {"kyma"})


def test_definition_of_kymas_that_is_only_touched_or_gone_wakes_nobody() -> None:
    before = crds.crd_for(Kyma)
    labelled = {**before, "metadata": {**before["metadata"], "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    for after in (before, labelled, {**before, "status": {"conditions": []}}, None):
        fleet = Fleet()
        fleet.wiring._kyma_definition_changed(Change(before, after))
        assert not any(fleet.woken(queue) for queue in QUEUES)


def test_secret_wakes_all_of_its_kyma_alone() -> None:
    fleet = Fleet()
    labels = {names.KYMA_NAME: "uses-fast", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    secret = msgspec.convert({"metadata": {"name": "access", "namespace": KCP, "labels": labels}}, Secret)
    fleet.wiring._secret_changed(Change(None, secret))
    for queue in ("kyma", "catalog", "mandatory", "skr_webhook", "module_config"):
        assert fleet.woken(queue) == {"uses-fast"}
    assert fleet.woken("manifest") == {"uses-fast-api"}
    assert fleet.woken("sync_resource") == {"uses-fast-sync"}


def test_manifest_wakes_its_kyma_alone() -> None:
    fleet = Fleet()
    before = builders.manifest("api", kyma="uses-fast", status={"state": "Processing"})
    after = builders.manifest("api", kyma="uses-fast", status={"state": "Ready"})
    fleet.wiring._manifest_changed(Change(before, after))
    assert fleet.woken("kyma") == {"uses-fast"}
    assert not any(fleet.woken(queue) for queue in set(QUEUES) - {"kyma"})
    fleet = Fleet()
    fleet.wiring._manifest_changed(Change(after, after))
    assert not any(fleet.woken(queue) for queue in QUEUES)


def test_manifest_of_a_mandatory_module_that_is_gone_wakes_the_installation_of_its_kyma() -> None:
    fleet = Fleet()
    fleet.wiring._manifest_changed(Change(builders.manifest("warden", kyma="uses-fast", mandatory=True), None))
    assert fleet.woken("mandatory") == fleet.woken("kyma") == {"uses-fast"}


def test_kyma_whose_labels_change_wakes_itself_alone_and_one_whose_times_do_nobody() -> None:
    fleet = Fleet()
    before = builders.kyma("uses-fast")
    fleet.wiring._kyma_changed(Change(before, builders.kyma("uses-fast", labels={names.BETA: "true"})))
    for queue in ("kyma", "catalog", "mandatory", "skr_webhook"):
        assert fleet.woken(queue) == {"uses-fast"}
    assert fleet.woken("manifest") == fleet.woken("sync_resource") == set()
    fleet = Fleet()
    later = {"lastOperation": {"operation": "looked", "lastUpdateTime": "2026-11-01T12:00:00Z"}}
    fleet.wiring._kyma_changed(Change(before, builders.kyma("uses-fast", status=later)))
    assert not any(fleet.woken(queue) for queue in QUEUES)


def test_cluster_without_a_kyma_has_all_that_belongs_there_looked_at_whole() -> None:
    fleet = Fleet()
    looked_at: list[Any] = []
    noting: Any = SimpleNamespace(wake=lambda *key: looked_at.append(key))
    vars(fleet.wiring.controllers.reconcilers).update(dict.fromkeys(QUEUES, noting))
    one, *_ = ASKED
    key = ObjectKey(KCP, one)
    fleet.wiring._cluster_is_new(key)
    assert {(key, ModuleTemplate.KIND), (key, ModuleReleaseMeta.KIND), (key,)} <= set(looked_at)
    for queue in ("catalog", "skr_webhook", "manifest", "sync_resource"):
        assert len(fleet.woken(queue)) == 1, queue
    assert fleet.woken("kyma") == set()  # it is at work, and says itself when it comes again


def test_module_to_which_another_has_left_objects_is_looked_at() -> None:
    fleet = Fleet()
    fleet.wiring.connect()
    fleet.wiring.controllers.reconcilers.manifest.on_woken(ObjectKey(KCP, "uses-fast-api"))
    assert fleet.woken("manifest", Priority.CHANGE) == {"uses-fast-api"}
