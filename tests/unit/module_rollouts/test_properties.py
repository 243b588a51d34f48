"""What can never happen in a rollout, whatever its strategy, the clusters and the crashes of replicas are."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle_manager.rollout.maintenance import Span
from lifecycle_manager.rollout.waves import wave_of, waves_in_order
from lifecycle_manager_api import State
from tests.unit.module_rollouts.fleet import Fleet, released, strategy

AMOUNTS = st.sampled_from(["1", "3", "25%", "100%"])
OUTCOMES = st.sampled_from([State.READY, State.READY, State.READY, State.PROCESSING, State.ERROR])


@dataclass(eq=False)
class SoakedFleet(Fleet):
    """A fleet that notes by itself since when each cluster is Ready, and checks each wave when it is completed."""

    ready: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)

    def report(self, name: str, state: State, reason: str = "NotReady") -> None:
        super().report(name, state, reason)
        version = self.manifests[name].spec.version
        if state is not State.READY:
            self.ready.pop(name, None)
        elif self.ready.get(name, ("", self.now))[0] != version:
            self.ready[name] = version, self.now

    def step(self, **how: Any) -> Any:
        step = super().step(**how)
        rollout = self.latest
        if rollout.spec.version == "2.0.0":
            done = {each.name for each in rollout.status.waves if each.completed_at is not None}
            for plan in waves_in_order(rollout.spec):
                if plan.name in done - self.completed:
                    self.check_soak(plan.name, soak=plan.soak, deadline=plan.deadline)
            self.completed = done
        return step

    def check_soak(self, wave: str, *, soak: timedelta, deadline: timedelta) -> None:
        for name, (version, since) in self.ready.items():
            release = self.manifests[name].status.release
            is_late = release is not None and since > release.at + deadline
            if version == "2.0.0" and wave_of(self.latest.spec.strategy, self.kymas[name].metadata.labels) == wave:
                assert is_late or self.now - since >= soak, "each cluster soaks from the moment at which it is Ready"


def waves(names: list[str]) -> st.SearchStrategy[list[dict[str, str]]]:
    each = st.fixed_dictionaries(
        {"maxConcurrent": AMOUNTS, "maxFailures": AMOUNTS, "soak": st.sampled_from(["0s", "2m"])}
    )
    return st.tuples(*[each] * len(names)).map(
        lambda rules: [
            {"name": name, "progressDeadline": "5m", **rule} for name, rule in zip(names, rules, strict=True)
        ]
    )


@settings(deadline=None)
@given(data=st.data(), rules=waves(["first", "second"]), sizes=st.tuples(*[st.integers(0, 6)] * 3))
def test_waves_keep_their_order_and_limits_and_come_to_an_end(
    data: st.DataObject, rules: list[dict[str, str]], sizes: tuple[int, int, int]
) -> None:
    fleet = SoakedFleet(strategy(*rules, progressDeadline="5m", soak="0s"), released("1.0.0"))
    for name, size in zip(("first", "second", "none"), sizes, strict=True):
        fleet.add(*[name] * size)
    fleet.run(2)
    fleet.release = released("2.0.0")
    for name in fleet.kymas:
        opens = fleet.now + timedelta(minutes=data.draw(st.integers(-5, 20)))
        fleet.windows[name] = Span(opens, opens + timedelta(hours=3))

    for _ in range(data.draw(st.integers(1, 12))):
        dies_after = data.draw(st.none() | st.integers(0, 3))
        fleet.step(dies_after=dies_after)
        check(fleet)
        for name in list(fleet.manifests):
            if data.draw(st.booleans()):
                fleet.install(name)
                fleet.report(name, data.draw(OUTCOMES))
        fleet.now += timedelta(minutes=1)

    for _ in range(60):
        fleet.steer(accepted_failures=20)
        fleet.run(1)
        check(fleet)
    assert fleet.latest.status.phase == "Completed"
    assert fleet.on("2.0.0") == sum(sizes)


def check(fleet: Fleet) -> None:
    rollout = fleet.latest
    if rollout.spec.version != "2.0.0":
        return
    plans = {each.name: each for each in waves_in_order(rollout.spec)}
    states = {each.name: each for each in rollout.status.waves}
    members: dict[str, list[str]] = {name: [] for name in plans}
    for name, kyma in fleet.kymas.items():
        members[wave_of(rollout.spec.strategy, kyma.metadata.labels)].append(name)
    under_way = {each.kyma for each in rollout.status.under_way}
    is_open = True
    for name, plan in plans.items():
        going = [each for each in members[name] if each in under_way]
        assert len(going) <= plan.max_concurrent(len(members[name])), "no more than allowed at a time"
        for each in members[name]:
            release = fleet.manifests[each].status.release
            has = release is not None and release.rollout == rollout.metadata.name
            assert is_open or not (has or each in under_way), "no cluster before its wave"
            assert not has or release is None or release.at <= fleet.now
        is_open = is_open and name in states and states[name].completed_at is not None
