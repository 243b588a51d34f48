"""Which version of a module a Kyma gets: the rules one by one, and the laws that hold for every fleet."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager.kyma.resolution import Installed, Resolution, resolve
from lifecycle_manager.kyma.wanted import DeleteManifest
from lifecycle_manager.mandatory_modules.rules import changes_of
from lifecycle_manager.mandatory_modules.snapshot import InstallationSnapshot
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import (
    KymaSpec,
    ModuleRelease,
    ModuleReleaseMeta,
    ModuleRollout,
    ModuleTemplate,
    ObjectMeta,
    State,
    Version,
    names,
)
from tests import builders
from tests.unit.kyma.generated_fleets import INSTALLED, LABELS, POLICY, SPECS, SUNDAY_NIGHT, TIMINGS, offers

NAME = "cloud-resources"
CLOSED = Timing(builders.NOW, policy=POLICY)
NOTHING: Mapping[str, Installed] = {}
BARRING = {"kymaSelector": {"matchLabels": {"team": "a"}}}
NOW = Timing(builders.NOW)


def spec(*modules: str, channel: str = "regular", **more: Any) -> KymaSpec:
    requested = [{"name": name, "managed": True} for name in modules or (NAME,)]
    return msgspec.convert({"channel": channel, "modules": requested, **more}, KymaSpec)


def metadata(labels: Mapping[str, str] | None = None, *, name: str = "k", uid: str = "u") -> ObjectMeta:
    return ObjectMeta(name=name, uid=uid, labels=labels or {})


def only(
    of: KymaSpec,
    offer: Offer,
    installed: Mapping[str, Installed] = NOTHING,
    timing: Timing = NOW,
    labels: Mapping[str, str] | None = None,
) -> Resolution:
    (resolution,) = resolve(of, metadata(labels), offer=offer, installed=installed, timing=timing)
    return resolution


def offer_of(*versions: str, templates: Mapping[str, Any] | None = None, **channels: Any) -> Offer:
    return Offer.of(
        [builders.template(version=version, **(templates or {})) for version in versions],
        [builders.release(**channels)],
    )


def test_module_channel_precedes_the_kymas_channel() -> None:
    requested = msgspec.convert(
        {"channel": "regular", "modules": [{"name": NAME, "channel": "fast", "managed": True}]}, KymaSpec
    )
    assert only(requested, offer_of("1.0.0", "2.0.0", regular="1.0.0", fast="2.0.0")).version == "2.0.0"


def test_channel_on_the_template_decides_without_a_release_meta() -> None:
    resolution = only(spec(), Offer.of([builders.template(channel="regular")], []))
    assert resolution.template is not None
    assert resolution.template.metadata.name == "cloud-resources-regular"


class TestTemplateOfAChannel:
    """Templates of the deprecated channels are named after those, and have their version in the descriptor alone."""

    def offering(self, version: str) -> Offer:
        return Offer.of([builders.template(version=version, channel="regular", requires_downtime=True)], [])

    def test_its_version_is_never_downgraded(self) -> None:
        held = only(spec(), self.offering("1.0.0"), {NAME: Installed("2.0.0", "regular")})
        assert (held.version, held.reason) == ("2.0.0", "DowngradeNotAllowed")

    def test_one_that_is_there_waits_for_no_window(self) -> None:
        resolution = only(spec(), self.offering("1.0.0"), {NAME: Installed("1.0.0", "regular")}, CLOSED)
        assert (resolution.version, resolution.maintenance) == ("1.0.0", False)
        assert resolution.template is not None
        newer = only(spec(), self.offering("1.1.0"), {NAME: Installed("1.0.0", "regular")}, CLOSED)
        assert (newer.version, newer.maintenance) == ("1.0.0", True)

    def test_it_is_found_by_its_version(self) -> None:
        template = self.offering("1.0.0").template(NAME, "1.0.0")
        assert template is not None
        assert self.offering("1.0.0").template(NAME, "2.0.0") is None


def test_older_template_names_its_module_in_a_label() -> None:
    template = builders.template(channel="regular", labels={names.MODULE_NAME: NAME})
    bare = msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, module_name=""))
    assert only(spec(), Offer.of([bare], [])).template == bare


def test_unresolved_module_says_what_is_missing() -> None:
    release = builders.release(fast="9.9.9")
    no_channel = only(spec(), Offer.of([], [release]))
    assert (no_channel.reason, "fast" in no_channel.message) == ("ChannelNotFound", True)
    no_template = only(spec(channel="fast"), Offer.of([], [release]))
    assert (no_template.reason, "cloud-resources-9.9.9" in no_template.message) == ("ModuleTemplateNotFound", True)
    unknown = only(spec(channel="fast"), Offer.of([], []))
    assert (unknown.reason, unknown.state) == ("ModuleNotFound", State.WARNING)
    assert {no_channel.state, no_template.state} == {State.ERROR}


@pytest.mark.parametrize(
    "offer",
    [
        Offer.of([builders.template(channel="regular", mandatory=True)], []),
        Offer.of([builders.template()], [builders.release(mandatory="0.1.0")]),
        Offer.of([builders.template(mandatory=True)], [builders.release(regular="0.1.0")]),
        Offer.of([builders.template(labels={names.MANDATORY_MODULE: "true"})], [builders.release(regular="0.1.0")]),
        Offer.of([builders.template(mandatory=True), builders.template(channel="regular")], []),
    ],
)
def test_mandatory_module_cannot_be_chosen(offer: Offer) -> None:
    resolution = only(spec(), offer)
    assert (resolution.template, resolution.reason) == (None, "ModuleMandatory")
    assert resolution.state is State.WARNING


@pytest.mark.parametrize(
    ("template", "release", "labels", "reason"),
    [
        ({"labels": {names.BETA: "true"}}, {}, {names.BETA: "true"}, "ModuleBeta"),
        ({"labels": {names.INTERNAL: "true"}}, {}, {names.INTERNAL: "true"}, "ModuleInternal"),
        ({}, {"spec": {"beta": True}}, {names.BETA: "true"}, "ModuleBeta"),
        ({}, {"spec": {"internal": True}}, {names.INTERNAL: "true"}, "ModuleInternal"),
        ({}, {"metadata": {"labels": {names.BETA: "true"}}}, {names.BETA: "true"}, "ModuleBeta"),
        ({}, {"metadata": {"labels": {names.INTERNAL: "true"}}}, {names.INTERNAL: "true"}, "ModuleInternal"),
        ({}, {"spec": {"kymaSelector": {"matchLabels": {"team": "a"}}}}, {"team": "a"}, "ModuleNotForThisCluster"),
    ],
)
def test_restricted_module_is_for_those_with_the_labels_alone(
    template: dict[str, Any], release: dict[str, Any], labels: dict[str, str], reason: str
) -> None:
    offer = Offer.of([builders.template(**template)], [builders.release(regular="0.1.0", **release)])
    refused = only(spec(), offer)
    assert (refused.template, refused.reason, refused.state) == (None, reason, State.ERROR)
    assert only(spec(), offer, labels=labels).version == "0.1.0"


def test_version_of_a_module_that_a_kyma_may_no_longer_have_is_not_kept() -> None:
    selected = {"kymaSelector": {"matchLabels": {"team": "a"}}, "beta": True}
    offer = Offer.of([builders.template()], [builders.release(regular="0.1.0", spec=selected)])
    lost = only(spec(), offer, {NAME: Installed("0.1.0", "regular")})
    assert (lost.version, lost.template, lost.is_excluded) == ("", None, True)
    kept = only(spec(), offer, {NAME: Installed("0.1.0", "regular")}, labels={"team": "a"})
    assert (kept.version, kept.reason, kept.is_excluded) == ("0.1.0", "ModuleBeta", False)


@pytest.mark.parametrize("is_continued", [True, False])
def test_removal_that_an_operator_has_continued_says_since_when_it_waited(*, is_continued: bool) -> None:
    changed_at = builders.NOW - timedelta(minutes=10)
    offer = Offer.of([builders.template()], [builders.release(regular="0.1.0", spec=BARRING)])
    timing = Timing(builders.NOW, released_at={NAME: changed_at}, held_removals={NAME: changed_at})
    word = {names.CONTINUE_DELETION: builders.NOW.isoformat()} if is_continued else {}
    kyma = ObjectMeta(name="k", uid="u", annotations=word)
    (lost,) = resolve(spec(), kyma, offer=offer, installed={NAME: Installed("0.1.0", "regular")}, timing=timing)
    assert lost.is_excluded is is_continued
    assert lost.removed_since == (changed_at if is_continued else None)
    assert DeleteManifest("one", removed_since=lost.removed_since).marks == (
        {names.REMOVED_SINCE: changed_at.isoformat()} if is_continued else {}
    )


def test_barred_module_is_removed_even_if_its_template_can_only_be_mandatory() -> None:
    release = builders.release(regular="0.1.0", spec={"kymaSelector": {"matchLabels": {"team": "a"}}})
    offer = Offer.of([builders.template(mandatory=True)], [release])
    lost = only(spec(), offer, {NAME: Installed("0.1.0", "regular")})
    assert (lost.version, lost.template, lost.is_excluded) == ("", None, True)


def test_refusal_of_a_restricted_module_does_not_show_its_channels() -> None:
    refused = only(spec(), Offer.of([], [builders.release(fast="1.0.0", spec={"beta": True})]))
    assert (refused.reason, "fast" in refused.message) == ("ModuleBeta", False)


def test_first_entry_of_a_module_that_is_requested_twice_counts() -> None:
    entries = [{"name": NAME, "channel": channel, "managed": True} for channel in ("fast", "regular")]
    requested = msgspec.convert({"channel": "regular", "modules": entries}, KymaSpec)
    assert only(requested, offer_of("1.0.0", "2.0.0", regular="1.0.0", fast="2.0.0")).version == "2.0.0"


def test_channel_that_a_release_has_twice_has_the_version_that_comes_first() -> None:
    """An API server refuses such a list; one that came past it means the same every time."""
    channels = [{"channel": "regular", "version": version} for version in ("1.0.0", "2.0.0")]
    templates = [builders.template(version=version) for version in ("1.0.0", "2.0.0")]
    offer = Offer.of(templates, [builders.release(spec={"channels": channels})])
    assert only(spec(), offer).version == "1.0.0"


def test_template_in_the_channel_none_is_in_no_channel() -> None:
    requested = spec(channel="none")
    assert only(requested, Offer.of([builders.template(channel="none")], [])).reason == "ModuleNotFound"


def test_of_two_releases_the_one_that_is_named_after_its_module_counts() -> None:
    templates = [builders.template(version=version) for version in ("1.0.0", "2.0.0", "3.0.0")]
    named = builders.release(regular="1.0.0")
    others = [
        builders.release(regular=version, metadata={"name": name})
        for name, version in (("a-copy", "2.0.0"), ("the-copy", "3.0.0"))
    ]
    for releases in ([named, *others], [*others, named], [*others[::-1], named]):
        assert only(spec(), Offer.of(templates, releases)).version == "1.0.0"
    for releases in (others, others[::-1]):
        assert only(spec(), Offer.of(templates, releases)).version == "2.0.0"


@pytest.mark.parametrize(
    ("there", "offered", "same_channel", "goes"),
    [
        ("1.0.0", "1.0.1", True, True),
        ("1.1.0", "1.0.9", True, False),
        ("1.1.0", "1.0.9", False, False),
        ("1.0.0", "1.0.0-rc-one", True, False),
        ("1.0.0", "1.0.0-rc-one", False, True),
        ("10.0.0", "9.9.9", True, False),
        ("not a version", "1.0.0", True, True),
        ("", "1.0.0", True, True),
        ("1.0.0+build.one", "1.0.0+build.two", True, True),
        ("1.0.0-rc-two", "1.0.0-rc-one", True, False),
        ("1.0.0-rc-two", "1.0.0-rc-one", False, True),
    ],
)
def test_module_is_never_downgraded(there: str, offered: str, same_channel: bool, goes: bool) -> None:
    installed = {NAME: Installed(there, "regular" if same_channel else "fast")}
    resolution = only(spec(), offer_of(offered, *filter(None, [there]), regular=offered), installed)
    assert not resolution.maintenance
    if goes:
        assert (resolution.version, resolution.reason) == (offered, "")
    else:
        assert (resolution.version, resolution.state, resolution.reason) == (
            there,
            State.WARNING,
            "DowngradeNotAllowed",
        )
        assert there in resolution.message
        assert offered in resolution.message


def test_module_of_unknown_channel_has_not_switched_channels() -> None:
    there = {NAME: Installed("1.0.0", "")}
    assert only(spec(), offer_of("1.0.0-rc-one", regular="1.0.0-rc-one"), there).reason == "DowngradeNotAllowed"


def test_unmanaged_module_stays_as_it_is() -> None:
    requested = msgspec.convert({"channel": "regular", "modules": [{"name": NAME, "managed": False}]}, KymaSpec)
    there = only(requested, offer_of("2.0.0", regular="2.0.0"), {NAME: Installed("1.0.0", "regular")})
    assert (there.state, there.version) == (State.UNMANAGED, "1.0.0")
    assert only(requested, offer_of("2.0.0", regular="2.0.0")).template is None


class TestRollout:
    released = builders.NOW - timedelta(minutes=1)
    timing = Timing(builders.NOW, {NAME: released}, max_delay=timedelta(minutes=5))
    offer = offer_of("1.0.0", "1.1.0", regular="1.1.0")
    there: Mapping[str, Installed] = {NAME: Installed("1.0.0", "regular")}

    def test_new_version_reaches_the_fleet_spread_over_time(self) -> None:
        turns = []
        for number in range(400):
            subject = metadata(name=f"kyma-{number}", uid=f"uid-{number}")
            (first,) = resolve(spec(), subject, offer=self.offer, installed=self.there, timing=self.timing)
            (same,) = resolve(spec(), subject, offer=self.offer, installed=self.there, timing=self.timing)
            assert first == same
            turns.append(first.again)
        waiting = [turn for turn in turns if turn is not None]
        assert 280 <= len(waiting) <= 350  # a fifth of the time has gone
        assert all(self.timing.now < turn <= self.released + timedelta(minutes=5) for turn in waiting)

    def test_turn_is_that_of_the_cluster_and_not_of_its_name(self) -> None:
        def turn(name: str, uid: str) -> datetime | None:
            slow = replace(self.timing, now=self.released)
            (resolution,) = resolve(
                spec(), metadata(name=name, uid=uid), offer=self.offer, installed=self.there, timing=slow
            )
            return resolution.again

        assert turn("demo", "one") == turn("other", "one") != turn("demo", "two")
        assert turn("demo", "") != turn("other", "")

    def test_version_that_is_there_is_in_force_however_new_its_release_is(self) -> None:
        there = {NAME: Installed("1.1.0", "regular")}
        fresh = replace(self.timing, released_at={NAME: builders.NOW})
        assert only(spec(), self.offer, there, fresh).reason == ""

    def test_release_in_the_future_and_a_rollout_without_delay_defer_no_upgrade(self) -> None:
        ahead = replace(self.timing, released_at={NAME: builders.NOW + timedelta(hours=1)})
        assert only(spec(), self.offer, self.there, ahead).version == "1.1.0"
        at_once = Timing(builders.NOW, {NAME: builders.NOW}, max_delay=timedelta(0))
        assert only(spec(), self.offer, self.there, at_once).version == "1.1.0"

    def test_clock_that_is_a_little_behind_makes_no_upgrade_early(self) -> None:
        ahead = replace(self.timing, released_at={NAME: builders.NOW + timedelta(seconds=2)})
        held = only(spec(), self.offer, self.there, ahead)
        assert (held.version, held.reason) == ("1.0.0", "RolloutPending")

    def test_everybody_has_it_at_the_end(self) -> None:
        later = replace(self.timing, now=self.released + timedelta(minutes=5))
        for number in range(100):
            (resolution,) = resolve(
                spec(),
                metadata(name="", uid=f"uid-{number}"),
                offer=self.offer,
                installed=self.there,
                timing=later,
            )
            assert resolution.version == "1.1.0"

    def test_first_installation_and_a_switch_of_channels_never_wait(self) -> None:
        slow = replace(self.timing, released_at={NAME: builders.NOW})
        assert only(spec(), self.offer, NOTHING, slow).version == "1.1.0"
        assert only(spec(), self.offer, {NAME: Installed("1.0.0", "fast")}, slow).version == "1.1.0"
        assert only(spec(), self.offer, self.there, slow).version == "1.0.0"


class TestRolloutInWaves:
    offer = offer_of("1.0.0", "2.0.0", "3.0.0", regular="2.0.0")

    @staticmethod
    def rollout(version: str = "2.0.0", former: str = "1.0.0", *, undoes: str = "", **status: Any) -> ModuleRollout:
        waves = {"waves": [{"name": "canary", "kymaSelector": {"matchLabels": {"stage": "canary"}}}]}
        spec = {"moduleName": NAME, "channel": "regular", "strategy": waves, "undoes": undoes}
        document = {"spec": {**spec, "version": version, "formerVersion": former}, "status": status}
        return msgspec.convert({"metadata": {"name": "r"}, **document}, ModuleRollout)

    @classmethod
    def timing(cls, *before: ModuleRollout, **status: Any) -> Timing:
        """Return the timing of a rollout of 2.0.0 or, where some are given, of these, the latest first."""
        rollouts = before or (cls.rollout(**status),)
        return Timing(builders.NOW, {NAME: builders.NOW}, rollouts={NAME: {"regular": rollouts}})

    @staticmethod
    def there(version: str = "1.0.0", *, released: str = "", by: str = "r", downgrade: bool = False) -> Any:
        release = ModuleRelease(version=released, rollout=by, at=builders.NOW, allow_downgrade=downgrade)
        return {NAME: Installed(version, "regular", release if released else None)}

    def test_installed_version_stays_until_another_one_is_released(self) -> None:
        held = only(spec(), self.offer, self.there(), self.timing())
        assert (held.version, held.reason) == ("1.0.0", "RolloutPending")
        assert only(spec(), self.offer, self.there(released="2.0.0"), self.timing()).version == "2.0.0"

    def test_release_of_a_former_rollout_decides_nothing(self) -> None:
        assert only(spec(), self.offer, self.there(released="2.0.0", by="former"), self.timing()).version == "1.0.0"

    def test_new_cluster_gets_the_version_once_its_wave_is_completed(self) -> None:
        labels = {"stage": "canary"}
        assert only(spec(), self.offer, timing=self.timing(), labels=labels).version == "1.0.0"
        done = self.timing(waves=[{"name": "canary", "completedAt": "2026-11-01T12:00:00Z"}])
        assert only(spec(), self.offer, timing=done, labels=labels).version == "2.0.0"
        assert only(spec(), self.offer, timing=done).version == "1.0.0", "another wave"

    def test_new_cluster_never_gets_what_is_being_taken_back(self) -> None:
        done = [{"name": "canary", "completedAt": "2026-11-01T12:00:00Z"}]
        bad = self.rollout(waves=done)
        ways_back = (self.rollout("1.0.0", "2.0.0"), self.rollout("1.0.0", "2.0.0", undoes="r"))
        for labels in ({}, {"stage": "canary"}):
            for back in ways_back:
                offer = offer_of("1.0.0", "2.0.0", "3.0.0", regular="2.0.0" if back.spec.undoes else "1.0.0")
                timing = self.timing(back, bad)
                assert only(spec(), offer, timing=timing, labels=labels).version == "1.0.0"
                onward = self.timing(self.rollout("3.0.0", "2.0.0"), back, bad)
                offer = offer_of("1.0.0", "2.0.0", "3.0.0", regular="3.0.0")
                assert only(spec(), offer, timing=onward, labels=labels).version == "1.0.0", "nor after that"

    def test_new_cluster_gets_nothing_where_the_version_to_go_back_to_is_gone(self) -> None:
        offer = offer_of("2.0.0", regular="2.0.0")
        back = self.timing(self.rollout("1.0.0", "2.0.0", undoes="r"))
        nothing = only(spec(), offer, timing=back)
        assert (nothing.reason, nothing.version, nothing.template) == ("ModuleTemplateNotFound", "", None)
        assert only(spec(), offer, timing=self.timing()).version == "2.0.0", "where nothing is taken back"

    def test_version_that_is_withdrawn_keeps_no_cluster_from_what_its_rollout_gives(self) -> None:
        offer = offer_of("1.0.0", regular="2.0.0")
        back = self.timing(self.rollout("1.0.0", "2.0.0", undoes="r"))
        for timing in (back, self.timing()):
            assert only(spec(), offer, timing=timing).version == "1.0.0", "a new cluster"
            waiting = only(spec(), offer, self.there(), timing)
            assert (waiting.version, waiting.state, waiting.reason) == ("1.0.0", "Ready", "RolloutPending")
        returning = only(spec(), offer, self.there("2.0.0", released="1.0.0", downgrade=True), back)
        assert (returning.version, returning.reason) == ("1.0.0", "")
        has_it = only(spec(), offer, self.there("2.0.0", released="2.0.0"), self.timing())
        assert (has_it.version, has_it.state, has_it.reason) == ("2.0.0", "Error", "ModuleTemplateNotFound")

    def test_new_cluster_gets_what_a_superseded_rollout_brought_to_its_wave(self) -> None:
        done = [{"name": "canary", "completedAt": "2026-11-01T12:00:00Z"}]
        superseded = self.rollout(waves=done, phase="Superseded")
        offer = offer_of("1.0.0", "2.0.0", "3.0.0", regular="3.0.0")
        timing = self.timing(self.rollout("3.0.0", "1.0.0"), superseded)
        assert only(spec(), offer, timing=timing, labels={"stage": "canary"}).version == "2.0.0"
        assert only(spec(), offer, timing=timing).version == "1.0.0", "its wave had not begun"

    def test_lower_version_is_installed_only_where_the_release_allows_it(self) -> None:
        back = self.there("3.0.0", released="2.0.0")
        assert only(spec(), self.offer, back, self.timing()).reason == "DowngradeNotAllowed"
        back = self.there("3.0.0", released="2.0.0", downgrade=True)
        assert only(spec(), self.offer, back, self.timing()).version == "2.0.0"

    def test_strategy_without_a_rollout_yet_holds_what_is_installed(self) -> None:
        none = Timing(builders.NOW, rollouts={NAME: {}})
        assert only(spec(), self.offer, self.there(), none).version == "1.0.0"
        assert only(spec(), self.offer, timing=none).version == "2.0.0"

    def test_module_without_a_manifest_follows_its_wave(self) -> None:
        there = {NAME: Installed("1.0.0", "regular", has_manifest=False)}
        assert only(spec(), self.offer, there, self.timing()).version == "1.0.0"
        done = self.timing(waves=[{"name": "remaining", "completedAt": "2026-11-01T12:00:00Z"}])
        assert only(spec(), self.offer, there, done).version == "2.0.0"

    def test_switch_of_channels_takes_effect_at_once(self) -> None:
        there = {NAME: Installed("1.0.0", "fast")}
        done = self.timing(waves=[{"name": "remaining", "completedAt": "2026-11-01T12:00:00Z"}])
        assert only(spec(), self.offer, there, done).version == "2.0.0"


class TestUsersTime:
    manual = msgspec.convert(
        {"channel": "regular", "modules": [{"name": NAME, "managed": True, "upgradeStrategy": "manual"}]}, KymaSpec
    )
    there: Mapping[str, Installed] = {NAME: Installed("1.0.0", "regular")}

    def test_new_version_waits_for_the_users_and_is_named(self) -> None:
        offer = offer_of("1.0.0", "1.1.0", regular="1.1.0")
        held = only(self.manual, offer, self.there)
        assert (held.version, held.reason, held.available, held.again) == ("1.0.0", "WaitsForUser", "1.1.0", None)
        assert only(spec(), offer, self.there).version == "1.1.0"
        assert only(self.manual, offer).version == "1.1.0", "a new module waits for nobody"

    def test_deadline_of_the_release_ends_the_waiting(self) -> None:
        marks = {"annotations": {names.UPGRADE_DEADLINE: "2h"}}
        offer = offer_of("1.0.0", "1.1.0", regular="1.1.0", metadata=marks)
        early = Timing(builders.NOW, {NAME: builders.NOW - timedelta(hours=1)})
        held = only(self.manual, offer, self.there, early)
        assert (held.version, held.again) == ("1.0.0", builders.NOW + timedelta(hours=1))
        late = Timing(builders.NOW, {NAME: builders.NOW - timedelta(hours=2)})
        assert only(self.manual, offer, self.there, late).version == "1.1.0"

    @pytest.mark.parametrize("deadline", ["soon", "99999999h", f"{'9' * 400}h"])
    def test_unreadable_deadline_is_over(self, deadline: str) -> None:
        marks = {"annotations": {names.UPGRADE_DEADLINE: deadline}}
        offer = offer_of("1.0.0", "1.1.0", regular="1.1.0", metadata=marks)
        known = Timing(builders.NOW, {NAME: builders.NOW})
        assert only(self.manual, offer, self.there, known).version == "1.1.0"


class TestMaintenance:
    offer = offer_of("1.0.0", "1.1.0", regular="1.1.0", templates={"requires_downtime": True})
    there: Mapping[str, Installed] = {NAME: Installed("1.0.0", "regular")}
    timing = Timing(builders.NOW, policy=POLICY)

    def test_upgrade_with_a_downtime_waits_for_the_window(self) -> None:
        waiting = only(spec(), self.offer, self.there, self.timing)
        assert (waiting.version, waiting.maintenance) == ("1.0.0", True)
        assert waiting.again == datetime.fromisoformat("2026-11-01T22:00:00+00:00")
        open_window = replace(self.timing, now=datetime.fromisoformat("2026-11-01T22:30:00+00:00"))
        assert only(spec(), self.offer, self.there, open_window).version == "1.1.0"

    def test_nothing_else_waits(self) -> None:
        without_downtime = offer_of("1.0.0", "1.1.0", regular="1.1.0")
        assert only(spec(), without_downtime, self.there, self.timing).version == "1.1.0"
        assert only(spec(), self.offer, NOTHING, self.timing).version == "1.1.0"
        assert only(spec(skipMaintenanceWindows=True), self.offer, self.there, self.timing).version == "1.1.0"
        assert only(spec(), self.offer, self.there, NOW).version == "1.1.0"

    def test_cluster_without_a_planned_window_is_reported(self) -> None:
        never = msgspec.convert({"default": {**SUNDAY_NIGHT, "days": []}}, MaintenancePolicy)
        held = only(spec(), self.offer, self.there, Timing(builders.NOW, policy=never))
        assert (held.version, held.state, held.again) == ("1.0.0", State.WARNING, None)
        assert "none is planned" in held.message

    def test_windows_depend_on_the_labels_in_kcp(self) -> None:
        rules = [{"match": {"region": "^eu"}, "windows": [{**SUNDAY_NIGHT, "begin": "11:00:00Z", "end": "13:00:00Z"}]}]
        policy = msgspec.convert({"default": SUNDAY_NIGHT, "rules": rules}, MaintenancePolicy)
        timing = Timing(builders.NOW, policy=policy)
        assert only(spec(), self.offer, self.there, timing).maintenance
        assert only(spec(), self.offer, self.there, timing, {names.REGION: "eu-1"}).version == "1.1.0"

    def test_unreadable_policy_defers_upgrades_with_a_message_and_no_first_installation(self) -> None:
        unreadable = Timing(builders.NOW, policy_error="the file is no JSON")
        held = only(spec(), self.offer, self.there, unreadable)
        assert (held.version, held.state) == ("1.0.0", State.WARNING)
        assert "the file is no JSON" in held.message
        assert only(spec(), self.offer, NOTHING, unreadable).version == "1.1.0"


# The laws, for generated fleets.


@given(catalog=offers(), requested=SPECS, labels=LABELS, timing=TIMINGS)
def test_kyma_never_gets_a_module_that_its_labels_exclude(
    catalog: tuple[list[ModuleTemplate], list[ModuleReleaseMeta]],
    requested: KymaSpec,
    labels: dict[str, str],
    timing: Timing,
) -> None:
    offer = Offer.of(*catalog)
    for resolution in resolve(requested, metadata(labels), offer=offer, installed=NOTHING, timing=timing):
        if resolution.template is None:
            continue
        release = offer.releases.get(resolution.module.name)
        flags = [resolution.template.metadata.labels]
        if release is not None:
            flags.append(
                {names.BETA: str(release.spec.beta).lower(), names.INTERNAL: str(release.spec.internal).lower()}
            )
            assert release.spec.kyma_selector is None or labels.get("team") == "a"
        for each in flags:
            for label in (names.BETA, names.INTERNAL):
                assert each.get(label) != "true" or labels.get(label) == "true"


@given(catalog=offers(), requested=SPECS, labels=LABELS, installed=INSTALLED, timing=TIMINGS)
def test_resolved_version_always_exists_and_is_never_downgraded(
    catalog: tuple[list[ModuleTemplate], list[ModuleReleaseMeta]],
    requested: KymaSpec,
    labels: dict[str, str],
    installed: dict[str, Installed],
    timing: Timing,
) -> None:
    offer = Offer.of(*catalog)
    for resolution in resolve(requested, metadata(labels), offer=offer, installed=installed, timing=timing):
        if resolution.template is not None:
            assert offer.templates[resolution.template.metadata.name] == resolution.template
            assert module_of(resolution.template) == resolution.module.name
            assert version_of(resolution.template) == resolution.version
        there = installed.get(resolution.module.name)
        if there is not None and resolution.version:
            new, old = Version.parse(resolution.version), Version.parse(there.version)
            assert (new.major, new.minor, new.patch) >= (old.major, old.minor, old.patch)


@given(
    catalog=offers(),
    requested=SPECS,
    labels=LABELS,
    installed=INSTALLED,
    timing=TIMINGS,
    order=st.randoms(use_true_random=False),
)
def test_resolution_does_not_depend_on_the_order_of_lists(
    catalog: tuple[list[ModuleTemplate], list[ModuleReleaseMeta]],
    requested: KymaSpec,
    labels: dict[str, str],
    installed: dict[str, Installed],
    timing: Timing,
    order: Any,
) -> None:
    templates, releases = list(catalog[0]), list(catalog[1])
    subject = metadata(labels)
    first = resolve(requested, subject, offer=Offer.of(templates, releases), installed=installed, timing=timing)
    order.shuffle(templates)
    order.shuffle(releases)
    assert resolve(requested, subject, offer=Offer.of(templates, releases), installed=installed, timing=timing) == first


@given(catalog=offers(), requested=SPECS)
def test_module_is_mandatory_or_can_be_chosen_and_never_both(
    catalog: tuple[list[ModuleTemplate], list[ModuleReleaseMeta]], requested: KymaSpec
) -> None:
    offer = Offer.of(*catalog)
    chosen = resolve(requested, metadata(), offer=offer, installed=NOTHING, timing=NOW)
    assert not {each.module.name for each in chosen if each.template is not None} & offer.mandatory.keys()


@given(catalog=offers(), labels=LABELS)
def test_mandatory_module_is_in_every_kyma(
    catalog: tuple[list[ModuleTemplate], list[ModuleReleaseMeta]], labels: dict[str, str]
) -> None:
    offer = Offer.of(*catalog)
    reachable = {"type": "SKRReachable", "status": "True", "reason": "Reachable", "message": ""}
    kyma = builders.kyma(labels=labels, status={"conditions": [reachable]})
    changes = changes_of(InstallationSnapshot(kyma=kyma, offer=offer, manifests=()))
    installed = {module_of_manifest(each): each for each in changes.apply}
    assert installed.keys() == offer.mandatory.keys()
    for module, manifest in installed.items():
        release = offer.releases.get(module)
        if release is None:
            versions = [version_of(t) for t in catalog[0] if t.spec.module_name == module and t.spec.mandatory]
            assert manifest.spec.version == str(max(map(Version.parse, versions)))
        else:
            assert release.spec.mandatory is not None
            assert manifest.spec.version == release.spec.mandatory.version
