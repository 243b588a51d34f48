"""The Go version installs modules, this version takes them over and gives them back, and the Go version goes on."""

from pathlib import Path

from tests.takeover_from_go import modules, recorder
from tests.takeover_from_go.conftest import Stage
from tests.takeover_from_go.modules import EVENTING, MONITORING, STORAGE
from tests.takeover_from_go.played import samples_of
from tests.waiting import eventually

SECONDS = 120
FIRST, SECOND = 0, 1


async def until_states(stage: Stage, number: int, wanted: dict[str, str]) -> None:
    """Wait until the status of a Kyma has states, the empty name being the Kyma's own."""

    async def is_reached() -> bool:
        seen.clear()
        seen.update(await stage.states(number))
        return seen == wanted

    seen: dict[str, str] = {}
    try:
        await eventually(is_reached, within=SECONDS)
    except AssertionError:
        raise AssertionError(f"the states of Kyma {number} are {seen}, and not {wanted}") from None


async def test_go_version_installs_seven_modules_in_two_clusters(stage: Stage) -> None:
    for number, chosen in enumerate(modules.CHOSEN):
        await until_states(stage, number, dict.fromkeys(("", *chosen), "Ready"))
        assert set(await stage.manifests(number)) == {*chosen, modules.WARDEN.name}


async def test_go_version_waits_for_what_blocks_a_removal(stage: Stage) -> None:
    skr = stage.skrs[SECOND]
    blocked = {"metadata": {"finalizers": [modules.FINALIZER]}}
    await skr.merge_patch(samples_of(EVENTING), EVENTING.name, blocked, EVENTING.namespace, field_manager="manager")
    users = {**STORAGE.default_cr(), "metadata": {"name": "users", "namespace": "default"}}
    await skr.create(samples_of(STORAGE), users, "default", field_manager="user")
    await stage.choose(SECOND, {"serverless": {}, "gateways": {}, MONITORING.name: {"managed": False}})

    states = {"serverless": "Ready", "gateways": "Ready", MONITORING.name: "Unmanaged"}
    await until_states(stage, SECOND, {"": "Processing", **states, EVENTING.name: "Deleting", STORAGE.name: "Deleting"})
    await until_states(stage, FIRST, dict.fromkeys(("", *modules.CHOSEN[FIRST]), "Ready"))


async def test_what_it_left_is_what_is_recorded(stage: Stage, tmp_path: Path) -> None:
    clusters = {"kcp": stage.kcp, "skr-1": stage.skrs[FIRST], "skr-2": stage.skrs[SECOND]}
    folder = recorder.RECORDING if recorder.is_requested() else tmp_path
    await recorder.record(clusters, folder, hosts=[stage.registry])
    assert recorder.outline(folder) == recorder.outline(recorder.RECORDING)
