"""What a kubeconfig may ask for, and that its secrets are left nowhere."""

import asyncio
import base64
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_runtime import (
    Client,
    KubeconfigInvalid,
    KubeconfigPolicy,
    KubeconfigRefused,
    Unauthorized,
    dump_yaml,
)
from kube_runtime.client.credentials import FixedHeaders, TokenFile, bearer
from kube_runtime.client.kubeconfig import Connection, connection_from_kubeconfig, connection_in_cluster
from kube_runtime.client.plugins import PluginCredentials
from kube_runtime.client.tls import TlsSettings, tls_context
from tests.kinds import CONFIG_MAPS
from tests.kubeconfigs import SECRET, kubeconfig
from tests.serving import serving
from tests.waiting import eventually

STRICT = KubeconfigPolicy.strict()


async def read(document: Any, policy: KubeconfigPolicy = STRICT) -> Connection:
    return await connection_from_kubeconfig(document, policy)


async def test_inline_token_over_verified_tls_is_allowed() -> None:
    connection = await read(dump_yaml(kubeconfig()))

    assert connection.server == "https://k.example:6443"
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {SECRET}"}
    assert connection.tls == TlsSettings()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (kubeconfig({"exec": {"command": "sh", "apiVersion": "v1"}}), "exec plugin"),
        (kubeconfig({"auth-provider": {"name": "gcp", "config": {"cmd-path": "sh"}}}), "auth provider"),
        (kubeconfig({"tokenFile": "/etc/passwd"}), "files"),
        (kubeconfig({"client-certificate": "/a", "client-key": "/b"}), "files"),
        (kubeconfig(**{"certificate-authority": "/etc/passwd"}), "files"),
        (kubeconfig(**{"insecure-skip-tls-verify": True}), "TLS verification"),
        (kubeconfig(**{"insecure-skip-tls-verify": "yes please"}), "TLS verification"),
        (kubeconfig(server="http://k.example"), "TLS verification"),
        (kubeconfig(server="HTTP://k.example"), "TLS verification"),
        (kubeconfig(**{"proxy-url": "http://proxy.example"}), "proxy"),
        (kubeconfig({"token": SECRET, "as": "admin"}), "impersonates"),
    ],
)
async def test_what_is_dangerous_is_refused_by_the_strict_policy(document: dict[str, Any], why: str) -> None:
    with pytest.raises(KubeconfigRefused, match=why) as refused:
        await read(document)

    assert SECRET not in str(refused.value)


async def test_field_that_is_null_is_as_one_that_is_not_there() -> None:
    user = {"token": SECRET, "exec": None, "auth-provider": None, "as-groups": None, "client-certificate-data": None}
    connection = await read(kubeconfig(user, **{"proxy-url": None, "insecure-skip-tls-verify": None}))
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {SECRET}"}


async def test_every_danger_can_be_allowed() -> None:
    document = kubeconfig(
        {"token": SECRET, "as": "admin"}, **{"insecure-skip-tls-verify": True, "proxy-url": "http://proxy.example"}
    )

    connection = await read(document, KubeconfigPolicy.permissive())

    assert connection.proxy == "http://proxy.example"
    assert connection.impersonation == {"Impersonate-User": "admin"}
    assert connection.tls is not None
    assert not connection.tls.verify


@pytest.mark.parametrize(
    "document",
    [
        "",
        "just text",
        "a: [",
        "a: 1\na: 2",
        {},
        {"current-context": "c"},
        {**kubeconfig(), "current-context": "another"},
        {**kubeconfig(), "users": []},
        {**kubeconfig(), "clusters": [{"name": "k", "cluster": "text"}]},
        {**kubeconfig(), "clusters": kubeconfig()["clusters"] * 2},
        kubeconfig(server="ftp://k.example"),
        kubeconfig(server="https://user:password@k.example"),
        kubeconfig(server="https://"),
        *(kubeconfig(server=f"https://{host}") for host in ("k.example:99999", "k.example:port", "[::1")),
        *(kubeconfig(server=f"https://{host}") for host in ("a" * 64, ".k.example", "k..example", "k\0.example")),
        *(kubeconfig(**{"tls-server-name": host}) for host in ("a" * 64, ".k.example", "k\0.example")),
        kubeconfig(server=7),
        kubeconfig(**{"certificate-authority-data": "!!!"}),
        kubeconfig(**{"certificate-authority-data": "ä"}),
        kubeconfig({"client-certificate-data": base64.b64encode(b"x").decode()}),
        kubeconfig({"token": "two\nlines"}),
        kubeconfig({"token": "tökén"}),
        kubeconfig({"token": 7}),
    ],
)
async def test_what_can_never_work_is_invalid(document: Any) -> None:
    with pytest.raises(KubeconfigInvalid):
        await read(document, KubeconfigPolicy(allow_insecure=True))


async def test_unknown_impersonation_is_never_left_out_in_silence() -> None:
    with pytest.raises(KubeconfigInvalid, match="impersonation"):
        await read(kubeconfig({"token": SECRET, "as-groups": ["system:masters"]}), KubeconfigPolicy.permissive())


async def test_missing_file_is_named_and_its_directory_is_that_of_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(dump_yaml(kubeconfig({"tokenFile": "token"})))
    (tmp_path / "token").write_text(f"{SECRET}\n")

    connection = await read(tmp_path / "config", KubeconfigPolicy.permissive())
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {SECRET}"}

    with pytest.raises(KubeconfigInvalid, match="nowhere"):
        await read(tmp_path / "nowhere", KubeconfigPolicy.permissive())


@pytest.mark.parametrize("unreadable", ["", None, "a token\x00"])
async def test_renewed_token_is_read_and_the_last_one_counts_while_it_is_written(
    tmp_path: Path, unreadable: str | None
) -> None:
    now, file = 0.0, tmp_path / "token"
    credentials = TokenFile(file, reread_seconds=60, clock=lambda: now)
    for now, content, read in (  # noqa: B007 - the clock
        (0.0, "first", "first"),
        (59.0, "second", "first"),
        (60.0, "second", "second"),
        (120.0, unreadable, "second"),
        (130.0, "third", "third"),
    ):
        file.unlink() if content is None else file.write_text(content)
        assert await credentials.headers() == {"Authorization": f"Bearer {read}"}
    file.write_text("fourth")
    assert credentials.refused()
    assert await credentials.headers() == {"Authorization": "Bearer fourth"}
    assert not FixedHeaders(bearer("x")).refused()


async def test_pod_finds_its_own_cluster_and_reaches_it_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    (tmp_path / "token").write_text(SECRET)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    connection = connection_in_cluster(environment, tmp_path)

    assert (connection.server, connection.proxy) == ("https://[fd00::1]:443", None)
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {SECRET}"}
    with pytest.raises(KubeconfigInvalid, match="KUBECONFIG is not set"):
        connection_in_cluster({}, tmp_path)


async def test_file_that_is_not_readable_as_yaml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("users: [")
    with pytest.raises(KubeconfigInvalid, match=f"the kubeconfig {file} is not readable as YAML: line"):
        await connection_from_kubeconfig(file, STRICT)


async def test_context_that_is_missing_is_named_with_those_that_are_there() -> None:
    with pytest.raises(KubeconfigInvalid) as raised:
        await connection_from_kubeconfig(kubeconfig() | {"current-context": "prod"}, STRICT)
    assert str(raised.value) == "the kubeconfig has no context 'prod'; it has the contexts: c"

    document = kubeconfig() | {"contexts": [{"name": name} for name in ("prod-eu", "prod-us", "dev")]}
    with pytest.raises(KubeconfigInvalid, match="prod-eu, prod-us, dev; did you mean 'prod-eu'"):
        await connection_from_kubeconfig(document, STRICT, "prod-eut")
    with pytest.raises(KubeconfigInvalid, match="names no context; it has the contexts: c"):
        await connection_from_kubeconfig(kubeconfig() | {"current-context": None}, STRICT)
    twice = kubeconfig() | {"contexts": 2 * kubeconfig()["contexts"]}
    with pytest.raises(KubeconfigInvalid, match="has 2 contexts named 'c'"):
        await connection_from_kubeconfig(twice, STRICT)


async def test_secrets_are_not_shown() -> None:
    connection = await read(
        kubeconfig({"token": SECRET}, **{"proxy-url": "http://u:pw@p"}), KubeconfigPolicy.permissive()
    )
    shown = repr(connection) + repr(TlsSettings(key=SECRET.encode()))

    assert SECRET not in shown
    assert "pw" not in shown


async def test_plugin_that_is_refused_while_it_is_asked_gives_its_answer_to_everybody(tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(go)
    credentials = PluginCredentials(plugin_that_prints(tmp_path, '{"token": "new"}', f"touch {started}; cat {go}"))
    asking = [asyncio.create_task(credentials.headers())]
    await eventually(started.exists)
    credentials.refused()
    asking.append(asyncio.create_task(credentials.headers()))
    await asyncio.to_thread(go.write_text, "")
    assert await asyncio.gather(*asking) == [{"Authorization": "Bearer new"}] * 2
    assert await credentials.headers() == {"Authorization": "Bearer new"}


async def test_certificate_of_a_plugin_is_left_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    output = '{"token": "t", "clientCertificateData": "certificate", "clientKeyData": "key"}'
    credentials = PluginCredentials(plugin_that_prints(tmp_path, output))

    assert await credentials.certificates() == TlsSettings(certificate=b"certificate", key=b"key")
    assert await credentials.headers() == {"Authorization": "Bearer t"}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("lifetime", "asked_at_last"), [(timedelta(seconds=2000), 2), (None, 1)])
async def test_plugin_is_asked_again_when_its_answer_has_ended_or_was_refused(
    tmp_path: Path, lifetime: timedelta | None, asked_at_last: int
) -> None:
    ends = "null" if lifetime is None else f'"{(datetime.now(UTC) + lifetime).isoformat()}"'
    clock, calls = [0.0], tmp_path / "calls"
    output = f'{{"token": "t", "expirationTimestamp": {ends}}}'
    plugin = plugin_that_prints(tmp_path, output, f"echo x >> {calls}")
    credentials = PluginCredentials(plugin, clock=lambda: clock[0])
    for clock[0], asked in ((0.0, 1), (1900.0, 1), (2100.0, asked_at_last)):
        assert await credentials.headers() == {"Authorization": "Bearer t"}
        assert len(calls.read_text().split()) == asked
    assert credentials.refused()
    await credentials.headers()
    assert len(calls.read_text().split()) == asked_at_last + 1


async def test_watch_goes_on_with_a_new_answer_of_a_plugin_that_said_no_end(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    (token := tmp_path / "token").write_text("old")
    plugin = plugin_that_prints(tmp_path, f'{{"token": "\'$(cat {token})\'"}}')
    async with serving(answer) as host:
        document, policy = kubeconfig(plugin, server=f"http://{host}"), KubeconfigPolicy.permissive()
        async with await Client.from_kubeconfig(document, policy=policy) as client:
            token.write_text("new")
            assert [each async for each in client.watch(CONFIG_MAPS, resource_version="1")] == []
            token.write_text("another")
            client_of_another = await Client.from_kubeconfig(document, policy=policy)
        async with client_of_another as client:
            with pytest.raises(Unauthorized):
                await anext(client.watch(CONFIG_MAPS, resource_version="1"))


def plugin_that_prints(folder: Path, status: str, first: str = "true") -> dict[str, Any]:
    """Return a user whose credentials a command says, after it has done something else."""
    script = folder / "plugin"
    version = "client.authentication.k8s.io/v1"
    output = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {status}}}'
    script.write_text(f"#!/bin/sh\n{first}\necho '{output}'\n")
    script.chmod(0o700)
    return {"exec": {"apiVersion": version, "command": str(script)}}


async def test_plugin_that_fails_does_not_tell_what_it_said(tmp_path: Path) -> None:
    plugin = plugin_that_prints(tmp_path, "{}", f"echo {SECRET} >&2; exit 1")

    with pytest.raises(KubeconfigInvalid, match=r"plugin failed: .*/plugin ended with 1$"):
        await read(kubeconfig(plugin), KubeconfigPolicy.permissive())


async def test_plugin_that_is_not_installed_is_named_with_its_hint() -> None:
    version = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": version, "command": "no-such-login", "installHint": "Get it\n here."}

    with pytest.raises(KubeconfigInvalid, match=r"failed: no-such-login: No such file or directory Get it here\."):
        await read(kubeconfig({"exec": plugin}), KubeconfigPolicy.permissive())


@pytest.fixture
def temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_client_key_is_left_in_no_file(temporary_directory: Path) -> None:
    with pytest.raises(KubeconfigInvalid, match="can't be used"):
        tls_context(TlsSettings(certificate=b"-----BEGIN CERTIFICATE-----\n", key=b"nonsense"))

    assert list(temporary_directory.iterdir()) == []


def test_ca_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(KubeconfigInvalid, match="no certificate"):
        tls_context(TlsSettings(ca=b"nonsense"))


def test_verification_is_on_unless_it_is_switched_off() -> None:
    assert tls_context(TlsSettings()).verify_mode is ssl.CERT_REQUIRED
    assert tls_context(TlsSettings(verify=False)).verify_mode is ssl.CERT_NONE


async def test_another_context_than_the_current_one_can_be_chosen(tmp_path: Path) -> None:
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "far"}})
    document["clusters"].append({"name": "far", "cluster": {"server": "https://far.example"}})
    file = tmp_path / "kubeconfig"
    file.write_text(dump_yaml(document))
    for context, server in ((None, "https://k.example:6443"), ("other", "https://far.example")):
        async with await Client.from_environment(file, context=context) as client:
            assert client.server == server
