"""What `klm rollout undo` leads to: never back to a version that was undone, unless somebody names it again."""

import re
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace as with_fields

from kyma_fleet.problems import Problem
from kyma_fleet.rollout_notes import without_effect
from kyma_fleet.rollouts import change_of, chosen, done_by, undoing, undone_by
from lifecycle_manager.module_rollouts.rules import RolloutDone, former_version
from lifecycle_manager.rollout.releases import in_force, is_way_back, version_for_new
from lifecycle_manager_api import ModuleRollout, State, WaveApproval, names
from tests.unit.module_rollouts.fleet import MODULE, Fleet, released, strategy

ALLOWED = {names.ALLOW_DOWNGRADE: "true"}
WAVES = strategy({"name": "canary", "approval": "required", "maxConcurrent": "1"}, soak="0s", maxFailures="0")
VERSIONS = [f"{number}.0.0" for number in range(1, 6)]
HINT = re.compile(r"klm rollout undo ([\w-]+)")


def fleet(*versions: str) -> Fleet:
    """Return a fleet in which these versions were rolled out, one after the other."""
    found = Fleet(strategy({"name": "canary", "soak": "0s"}, soak="0s"), released(versions[0], ALLOWED))
    found.add("canary", *["other"] * 3, version=versions[0])
    for each in versions:
        give(found, each)
        found.run(8)
        assert found.latest.status.phase == "Completed"
    return found


def give(fleet: Fleet, version: str) -> None:
    fleet.release, fleet.content = released(version, ALLOWED), f"content of {version}"


def said_by(fleet: Fleet, name: str = MODULE) -> str:
    """Return why a second undo does nothing."""
    rollout = chosen(fleet.rollouts, name, "")
    by = undone_by(fleet.channel, rollout)
    assert by is not None
    return done_by(fleet.channel, by)


def test_second_undo_says_that_the_version_is_taken_back_already() -> None:
    found = fleet("1.0.0", "2.0.0", "3.0.0")
    found.undo()
    for rounds in (0, 1, 8):
        found.run(rounds)
        for name in (MODULE, "cloud-resources-regular-3", "cloud-resources-regular-4"):
            assert said_by(found, name) == (
                "rollout cloud-resources-regular-4 takes cloud-resources back from 3.0.0 to 2.0.0. Further back, to "
                "1.0.0: klm rollout undo cloud-resources-regular-2. Forward: give channel regular another version, "
                "for 3.0.0 again 2.0.0 first"
            )
    assert found.on("2.0.0") == 4


def test_undo_of_the_rollout_in_force_goes_further_back_and_stays_there() -> None:
    found = fleet("1.0.0", "2.0.0", "3.0.0")
    found.undo()
    found.run(1)
    found.undo("cloud-resources-regular-2")
    found.run(10)
    assert (found.on("1.0.0"), found.latest.metadata.name) == (4, "cloud-resources-regular-5")
    assert "Further back" not in said_by(found)
    assert version_for_new(tuple(found.channel), {}) == "1.0.0"


def test_chain_of_undos_stays_in_force_without_a_strategy() -> None:
    found = fleet("1.0.0", "2.0.0", "3.0.0")
    found.undo()
    found.undo("cloud-resources-regular-2")
    found.run(10)
    found.release = with_fields(found.release, metadata=with_fields(found.release.metadata, annotations=ALLOWED))
    found.run(5)
    assert (found.on("1.0.0"), found.latest.metadata.name) == (4, "cloud-resources-regular-5")


def test_undo_whose_channel_names_its_version_meanwhile_goes_on_as_it_was() -> None:
    found = fleet("1.0.0", "2.0.0")
    found.undo(at_once=True)
    give(found, "1.0.0")
    found.run(1)
    spec = found.latest.spec
    assert (spec.version, spec.former_version, spec.at_once) == ("1.0.0", "2.0.0", True)
    assert found.on("1.0.0") == 4


def test_lower_version_whose_template_changes_meanwhile_still_goes_back() -> None:
    found = fleet("1.0.0", "2.0.0")
    give(found, "1.0.0")
    found.run(1)
    found.content = "another content"
    found.run(10)
    assert (found.latest.spec.former_version, found.on("1.0.0")) == ("2.0.0", 4)


def test_version_that_was_taken_back_comes_again_after_the_channel_had_that_in_force() -> None:
    found = fleet("1.0.0", "2.0.0")
    found.undo()
    found.run(10)
    give(found, "1.0.0")
    found.run(2)
    assert (found.on("1.0.0"), found.latest.status.phase) == (4, "Completed")
    give(found, "2.0.0")
    found.run(10)
    assert (found.on("2.0.0"), found.latest.spec.former_version) == (4, "1.0.0")
    found.undo()
    found.run(10)
    assert found.on("1.0.0") == 4


def test_superseded_rollout_is_none_to_go_back_to() -> None:
    found = fleet("1.0.0", "2.0.0")
    give(found, "3.0.0")
    found.run(1)
    give(found, "4.0.0")
    found.run(10)
    with pytest.raises(Problem, match=r"4\.0\.0 of cloud-resources-regular-4 is in force"):
        found.undo("cloud-resources-regular-3")
    assert found.undo().spec.version == "2.0.0"
    assert "klm rollout undo cloud-resources-regular-2" in said_by(found)


def test_change_of_the_template_in_place_hides_no_version_before() -> None:
    found = fleet("1.0.0", "2.0.0")
    found.content = "a fix"
    changed = replace(found.seen(), rollouts=tuple(found.channel))
    assert former_version(changed) == "2.0.0"
    spec = with_fields(found.latest.spec, former_version="2.0.0", revision=3, content="a fix")
    metadata = with_fields(found.latest.metadata, name="cloud-resources-regular-3")
    found.rollouts.append(ModuleRollout(metadata=metadata, spec=spec))
    with pytest.raises(Problem, match="change the template back, or klm rollout undo cloud-resources-regular-2"):
        found.undo()
    assert found.undo("cloud-resources-regular-2").spec.version == "1.0.0"


def test_way_back_that_is_completed_is_said_to_go_forward_and_not_to_be_undone() -> None:
    found = fleet("1.0.0", "2.0.0")
    found.undo()
    found.run(8)
    assert found.latest.status.phase == "Completed"
    answer = without_effect(found.latest, "halt", {"halted": True})
    assert answer == "is completed: every wave has got 1.0.0; to go forward, give channel regular another version"


def test_first_rollout_of_a_channel_has_nothing_to_go_back_to_but_a_way_forward() -> None:
    found = fleet("1.0.0")
    first = "1.0.0 is the first version of channel regular"
    forward = "give the channel another version, which then replaces it"
    with pytest.raises(Problem) as completed:
        found.undo()
    assert str(completed.value) == f"there is no version to go back to: {first}; {forward}"
    assert without_effect(found.latest, "halt", {"halted": True}).endswith(f"{first}; {forward}")

    under_way = Fleet(WAVES, released("1.0.0"))
    under_way.add("canary", "other", version="0.9.0")
    under_way.settle()
    under_way.steer(former_version="")
    with pytest.raises(Problem, match=rf"{forward}, and until then klm rollout halt cloud-resources-regular-1$"):
        under_way.undo()


def test_new_clusters_of_a_braked_channel_get_nothing_that_was_taken_back() -> None:
    found = fleet("1.0.0", "2.0.0")
    found.undo(at_once=True)
    found.run(2)
    found.manifests |= {
        name: with_fields(each, spec=with_fields(each.spec, version="2.0.0"))
        for name, each in list(found.manifests.items())[:3]
    }
    found.release = with_fields(released("3.0.0"), metadata=with_fields(found.release.metadata, annotations={}))
    assert former_version(found.seen()) == "1.0.0"


class Undoing(RuleBasedStateMachine):
    """A channel whose version, template and rollouts people change in any order, while clusters fail and recover.

    `undone`: what was undone and not given to the channel since; `proven`: what clusters had before, or that completed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(WAVES, released("1.0.0", ALLOWED), content="0")
        self.fleet.add("canary", "canary", "other", "other")
        self.undone: set[str] = set()
        self.proven = {"1.0.0"}
        self.fleet.settle()
        for version in VERSIONS[:3]:
            self.roll_out_to_the_end(version, "0")

    @rule(version=st.sampled_from(VERSIONS))
    def give_the_channel(self, version: str) -> None:
        if version != self.fleet.release.spec.channels[0].version:
            self.undone.discard(version)
            self.fleet.release, self.fleet.content = released(version, ALLOWED), "0"

    @rule(content=st.sampled_from(["0", "1"]))
    def change_the_template(self, content: str) -> None:
        self.fleet.content = content

    @rule(version=st.sampled_from(VERSIONS), content=st.sampled_from(["0", "1"]))
    def roll_out_to_the_end(self, version: str, content: str) -> None:
        self.give_the_channel(version)
        self.fleet.content = content
        for _ in range(8):
            self.steer("approve")
            self.steer("resume")
            self.let_time_pass(rounds=1, dies_after=None, fails=False)

    @rule(which=st.sampled_from([None, None, 0, 1, 2, 3]), at_once=st.booleans(), rounds=st.integers(0, 3))
    def undo_and_wait(self, which: int | None, rounds: int, *, at_once: bool) -> None:
        self.undo(which, at_once=at_once)
        self.let_time_pass(rounds=rounds, dies_after=None, fails=False)

    def undo(self, which: int | None, *, at_once: bool) -> None:
        """Undo one of the rollouts, the latest first, or that in force."""
        channel = self.fleet.channel
        rollout = channel[which % len(channel)] if which is not None else in_force(channel) or channel[0]
        by = undone_by(channel, rollout)
        if by is not None:
            self.follow(done_by(channel, by))
            return
        try:
            back = undoing(channel, rollout, at_once=at_once)
        except Problem as problem:
            self.follow(str(problem))
            return
        assert back.spec.version in self.proven - self.undone, "it returns to a version that was in force before"
        assert channel[0].spec.version == back.spec.former_version, "it takes back what is rolled out"
        self.fleet.rollouts.append(back)
        self.undone.add(back.spec.former_version)

    def follow(self, said: str) -> None:
        """Check that what a message offers can be done."""
        for name in HINT.findall(said):
            channel = self.fleet.channel
            offered = chosen(channel, name, "")
            assert undone_by(channel, offered) is None
            if offered.spec.former_version:
                assert undoing(channel, offered, at_once=False).spec.version in self.proven - self.undone

    @rule(verb=st.sampled_from(["approve", "pause", "resume", "halt"]))
    def steer(self, verb: Any) -> None:
        latest = self.fleet.latest
        try:
            change = change_of(latest, verb, wave="canary" if verb == "approve" else "", by="me", at=self.fleet.now)
        except Problem:
            return
        known = {"paused": "paused", "halted": "halted", "acceptedFailures": "accepted_failures"}
        spec = {known[each]: value for each, value in change.items() if each in known}
        if "approvals" in change:
            spec["approvals"] = (*latest.spec.approvals, WaveApproval(wave="canary"))
        self.fleet.steer(**spec)

    @rule(rounds=st.integers(1, 6), fails=st.booleans(), dies_after=st.none() | st.integers(0, 2))
    def let_time_pass(self, rounds: int, dies_after: int | None, *, fails: bool) -> None:
        for _ in range(rounds):
            self.reconcile(dies_after)
            before = self.fleet.versions()
            for name, version in before.items():
                self.fleet.install(name)
                now = self.fleet.manifests[name].spec.version
                assert now == version or now not in self.undone, f"{now} was undone, and comes again"
                self.fleet.report(name, State.ERROR if fails else State.READY)
            self.fleet.now += self.fleet.now.resolution * 60_000_000

    def reconcile(self, dies_after: int | None) -> None:
        self.fleet.step(dies_after=dies_after)
        for _ in range(20):
            if isinstance(self.fleet.step(), RolloutDone):
                break
        else:
            pytest.fail("the plan comes to no end")
        known = self.fleet.rollouts  # a way back counts from its beginning
        self.proven |= {it.spec.version for it in known if it.status.phase == "Completed" or is_way_back(it.spec)}

    @precondition(lambda self: self.fleet.rollouts)
    @invariant()
    def new_clusters_get_nothing_that_was_undone(self) -> None:
        assert version_for_new(tuple(self.fleet.channel), {}) not in self.undone
        assert version_for_new(tuple(self.fleet.channel), {"wave": "canary"}) not in self.undone

    @invariant()
    def what_is_in_force_is_no_undo(self) -> None:
        standing = in_force(self.fleet.channel)
        assert standing is None or not standing.spec.undoes


Undoing.TestCase.settings = settings(stateful_step_count=15)
TestUndoing = Undoing.TestCase
