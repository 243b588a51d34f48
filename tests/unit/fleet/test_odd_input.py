"""What an operator mistypes is reported in a line, and not by a traceback."""

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
import typer

from kube_runtime import Client, ClusterUnreachable, Gone, ServerUnavailable, TooManyRequests
from kyma_fleet import rollouts, running, status, steering
from kyma_fleet.cli.releases import preview
from kyma_fleet.identities import kubeconfig_for
from kyma_fleet.images import images_of
from kyma_fleet.listing import command as listing
from kyma_fleet.listing.formats import output_for
from kyma_fleet.listing.kinds import kind_named
from kyma_fleet.listing.selection import Selection
from kyma_fleet.problems import Problem
from kyma_fleet.registration.join import Joining, roles_of
from kyma_fleet.registration.progress import follow
from kyma_fleet.screen import Screen
from lifecycle_manager_api import Kyma
from tests import builders
from tests.klm import run_klm
from tests.unit.fleet.test_status import reading
from tests.unit.fleet_page.rollouts import rollout


@pytest.mark.parametrize("text", ["image: ghcr.io/x", "watcher: [a]"])
def test_values_of_another_shape_are_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    with pytest.raises(Problem, match=r"values\.yaml: (image|watcher) is no mapping"):
        images_of([file], [file], registry="")


@pytest.mark.parametrize("amount", ["abc", "", "%", "-1", "1.5%"])
def test_share_that_is_none_is_an_error_of_usage(amount: str) -> None:
    with pytest.raises(typer.BadParameter, match="max-changed-clusters"):
        preview(
            module="keda", version="1.0.0", channel="", sample=0, rollout_max_delay="5m", maintenance_policy=None,
            max_changed_clusters=amount, namespace="n", output="table", kubeconfig=Path("/nowhere"), context=None,
        )  # fmt: skip


@pytest.mark.parametrize(
    "command", ["pause [] --module keda --reason x --yes", "resume [] --module keda --yes", "reconcile [] keda"]
)
async def test_empty_name_of_a_kyma_is_not_all_that_have_the_module(tmp_path: Path, command: str) -> None:
    result = await run_klm(tmp_path / "none", *(each.replace("[]", "") for each in command.split()))
    assert result.code == 2
    assert "the name of the Kyma is empty" in result.errors


async def test_pause_without_a_reason_in_its_text_is_refused(tmp_path: Path) -> None:
    result = await run_klm(tmp_path / "none", "pause", "demo", "--reason", " ")
    assert (result.code, "--reason is empty" in result.errors) == (2, True)


def test_role_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "role.yaml"
    file.write_bytes(b"\x80\x81 kind")
    with pytest.raises(Problem, match=r"role\.yaml: "):
        roles_of(Joining("demo", tmp_path, roles=(file,)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])  # as PowerShell writes it
def test_kubeconfig_in_utf_16_and_nameless_entries_are_read_as_by_the_client(tmp_path: Path, encoding: str) -> None:
    text = (
        "current-context: a\ncontexts: [{}, {name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [null, {name: c, cluster: {server: 'https://example.com'}}]\n"
    )
    (tmp_path / "skr.yaml").write_text(text, encoding=encoding)
    assert "https://example.com" in kubeconfig_for(tmp_path / "skr.yaml", "me")("token")


async def test_nothing_to_pause_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "read_subjects", AsyncMock(return_value=[]))
    monkeypatch.setattr(steering, "who", lambda _: asyncio.sleep(0, "ada"))
    screen, kcp = Screen(stream=io.StringIO()), cast("Client", SimpleNamespace())
    for verb in ("pause", "resume", "continue"):
        await steering.steer(kcp, screen, verb, steering.Subjects(everything=True), reason="", confirm=lambda _: True)
    lines = screen.stream.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == ["nothing to do: there is no Kyma and no Manifest"] * 3


class Stopped(Exception):
    """The end of a watch that is followed without end."""


@pytest.mark.parametrize(
    "fault",
    [ClusterUnreachable("away"), ServerUnavailable(503, "", "starting", {}), TooManyRequests(429, "", "slowly", {})],
)
@pytest.mark.parametrize("is_of_list", [False, True])
async def test_watch_outlives_an_api_server_that_restarts(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, is_of_list: bool
) -> None:
    faults: list[Exception] = [Gone(410, "", "too old", {}), fault] if is_of_list else [fault]
    watched = 0

    async def pages(*_: Any, **__: Any) -> AsyncIterator[Any]:
        if watched and faults:
            raise faults.pop(0)
        yield SimpleNamespace(items=(), resource_version="2")

    async def watch(*_: Any, **__: Any) -> AsyncIterator[Any]:
        nonlocal watched
        watched += 1
        if faults:
            raise faults.pop(0)
        raise Stopped
        yield  # pragma: no cover

    monkeypatch.setattr(listing, "RETRY_SECONDS", 0)
    kind, screen, selection = kind_named("kymas"), Screen(stream=io.StringIO()), Selection()
    assert kind is not None
    output = output_for(kind, selection, screen, watch=True)
    kcp: Any = SimpleNamespace(pages=pages, watch=watch)
    with pytest.raises(Stopped):
        await listing.Listing(kcp, kind, selection, "kcp-system", output, screen).run(watch=True)


async def test_waits_outlive_an_api_server_that_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    away, screen, kcp = ServerUnavailable(503, "", "starting", {}), Screen(stream=io.StringIO()), cast("Client", None)
    for module, seconds in ((running, "RETRY"), (rollouts, "WATCH"), (status, "MIN_INTERVAL")):
        monkeypatch.setattr(module, f"{seconds}_SECONDS", 0)
    steps = [rollout("keda", phase=each, failed={}) for each in ("Progressing", "Completed")]
    monkeypatch.setattr(rollouts, "_read", AsyncMock(side_effect=[steps[:1], away, steps[1:]]))
    assert await rollouts.status(kcp, screen, "keda", "", watch=True) == 0
    monkeypatch.setattr(status, "read_fleet", AsyncMock(side_effect=[reading(builders.kyma()), away, Stopped()]))
    with pytest.raises(Stopped):
        await status.status(kcp, screen, "leases", watch=True)
    joining: Any = SimpleNamespace(get=AsyncMock(side_effect=[away, builders.kyma()]))
    assert await follow(joining, screen, "demo", lambda kyma: kyma is not None, timedelta(seconds=60))


async def test_one_look_is_taken_where_nobody_waits() -> None:
    async def get(*_: object) -> Kyma:
        await asyncio.sleep(0)  # as a request does
        return builders.kyma()

    kcp: Any = SimpleNamespace(get=get)
    assert await follow(kcp, Screen(stream=io.StringIO()), "demo", lambda kyma: kyma is not None, timedelta())
