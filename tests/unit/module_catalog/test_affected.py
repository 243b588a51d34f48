"""Which Kymas a change of the catalog affects: those that use it, found by indexes."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kube_runtime import Cache, Change, ObjectKey
from lifecycle_manager.contract.indexes import BY_CHANNEL, BY_MODULE, BY_TEMPLATE
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.affected import (
    is_for_rollouts,
    kymas_using_release,
    kymas_using_template,
    offer_changed,
)
from lifecycle_manager_api import ModuleTemplate, names
from tests import builders


def informer(*items: Any, indexes: Any = ()) -> Any:
    cache: Cache[Any] = Cache(indexes)
    for each in items:
        cache.put(ObjectKey("kcp-system", each.metadata.name), each)
    return SimpleNamespace(cache=cache, by_index=lambda index, value: cache.by_index(index.name, value))


KYMAS = informer(
    builders.kyma("a", status={"modules": [builders.module_status("api")]}),
    builders.kyma("b", status={"modules": [builders.module_status("api", channel="fast")]}),
    builders.kyma("c", status={"modules": [builders.module_status("nats")]}),
    indexes=(BY_MODULE, BY_CHANNEL, BY_TEMPLATE),
)


def having(template: ModuleTemplate, *releases: Any) -> list[str]:
    return named(kymas_using_template(template, kymas=KYMAS, releases=informer(*releases)))


def dated(**given: Any) -> DatedReleaseMeta:
    return msgspec.convert(msgspec.to_builtins(builders.release("api", **given)), DatedReleaseMeta)


def named(kymas: Any) -> list[str]:
    return sorted(kyma.metadata.name for kyma in kymas)


def test_new_version_of_a_channel_concerns_the_kymas_in_the_channel() -> None:
    change = Change(dated(regular="1.0.0", fast="1.0.0"), dated(regular="1.0.0", fast="1.1.0"))
    assert named(kymas_using_release(change, kymas=KYMAS)) == ["b"]


def test_added_or_removed_channel_concerns_the_kymas_in_the_channel() -> None:
    one, both, other = dated(fast="1.0.0"), dated(fast="1.0.0", regular="1.0.0"), dated(regular="1.0.0")
    assert named(kymas_using_release(Change(one, both), kymas=KYMAS)) == ["a"]
    assert named(kymas_using_release(Change(both, other), kymas=KYMAS)) == ["b"]


def test_other_changes_of_a_release_concern_all_kymas_with_the_module() -> None:
    beta = dated(regular="1.0.0", spec={"beta": True})
    for change in (Change(None, beta), Change(beta, None), Change(dated(regular="1.0.0"), beta)):
        assert named(kymas_using_release(change, kymas=KYMAS)) == ["a", "b"]


def test_template_concerns_the_kymas_that_have_it_and_those_in_its_channels() -> None:
    assert having(builders.template("api", "1.0.0")) == ["a", "b"]
    assert having(builders.template("api", "2.0.0"), dated(regular="1.0.0", fast="2.0.0")) == ["b"]
    assert having(builders.template("nats", channel="regular")) == ["c"]
    assert having(builders.template("other", "1.0.0")) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"resourceVersion": "2"}, False),
        ({"labels": {"a": "b"}}, True),
        ({"finalizers": ["example.com/mine"]}, True),
        ({"deletionTimestamp": "2026-11-01T12:00:00Z"}, True),
    ],
)
def test_offer_changed_ignores_what_is_neither_spec_nor_metadata_of_others(changed: Any, expected: bool) -> None:
    old = builders.template("api", "1.0.0")
    assert offer_changed(Change(old, builders.template("api", "1.0.0", **changed))) is expected


@pytest.mark.parametrize(
    ("annotations", "channels", "expected"),
    [
        pytest.param({"operator.kyma-project.io/rollout-strategy": "careful"}, {"regular": "2.0.0"}, True, id="waves"),
        pytest.param({}, {"regular": "2.0.0"}, False, id="no strategy"),
        pytest.param(
            {"operator.kyma-project.io/rollout-strategy": "careful"}, {"fast": "1.0.0"}, False, id="other channels"
        ),
    ],
)
def test_version_that_is_rolled_out_affects_no_kyma_by_its_release(
    annotations: dict[str, str], channels: dict[str, str], expected: bool
) -> None:
    old = dated(regular="1.0.0", metadata={"annotations": annotations})
    assert is_for_rollouts(Change(old, dated(metadata={"annotations": annotations}, **channels))) is expected
    assert not is_for_rollouts(Change(None, old))


@pytest.mark.parametrize(
    "given",
    [
        {"spec": {"ocmComponentName": "kyma-project.io/module/api"}},
        {"metadata": {"annotations": {names.UPGRADE_DEADLINE: "1h"}}},
        {"metadata": {"annotations": {names.ROLLOUT_STRATEGY: "slow"}}},
    ],
)
def test_what_decides_about_a_version_concerns_all_kymas_with_the_module(given: Any) -> None:
    change = Change(dated(regular="1.0.0", fast="1.0.0"), dated(regular="1.0.0", fast="1.0.0", **given))
    assert offer_changed(change)
    assert named(kymas_using_release(change, kymas=KYMAS)) == ["a", "b"]
