"""What kubectl accepts in a kubeconfig is accepted here, too, and means the same."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kube_runtime import Client, KubeconfigInvalid, KubeconfigPolicy, dump_yaml
from kube_runtime.client.credentials import FixedHeaders
from kube_runtime.client.kubeconfig import (
    Connection,
    connection_from_kubeconfig,
    connection_in_cluster,
    connection_of_environment,
)
from kube_runtime.client.tls import TlsSettings, tls_context
from kyma_certs import KeyPair, create_ca
from tests.kubeconfigs import kubeconfig

PERMISSIVE, STRICT = KubeconfigPolicy.permissive(), KubeconfigPolicy.strict()
VERSION = "client.authentication.k8s.io/v1"
NOW = datetime.now(UTC)
BODY = b'{"gitVersion":"v1.36.3"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(BODY), BODY)


@pytest.fixture(scope="module")
def ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=2), now=NOW)


async def test_scheme_in_capitals_is_tls_by_the_ca_of_the_kubeconfig(ca: KeyPair) -> None:
    encoded = base64.b64encode(ca.certificate_pem).decode()
    document = kubeconfig(server="HTTPS://k.example", **{"certificate-authority-data": encoded})

    connection = await connection_from_kubeconfig(document, STRICT)

    assert connection.server == "https://k.example"
    assert connection.tls == TlsSettings(ca=ca.certificate_pem)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_base64_in_several_lines_is_read(ca: KeyPair, newline: str) -> None:
    encoded = base64.encodebytes(ca.certificate_pem).decode().replace("\n", newline)
    document = kubeconfig(**{"certificate-authority-data": encoded})

    connection = await connection_from_kubeconfig(document, STRICT)

    assert connection.tls == TlsSettings(ca=ca.certificate_pem)


async def test_first_document_counts_and_of_repeated_keys_the_last() -> None:
    cluster = {"name": "k", "cluster": {"server": "https://k.example"}}
    chosen = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    text = dump_yaml({"clusters": [cluster], "contexts": [chosen], "users": users})
    twice = f"---\ncurrent-context: former\n{text}\ncurrent-context: c\n---\n"
    assert (await connection_from_kubeconfig(twice, KubeconfigPolicy.strict())).server == "https://k.example"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_file_of_windows_is_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "config").write_text(dump_yaml(kubeconfig()), encoding=encoding)
    assert (await connection_of_environment(tmp_path / "config")).server == "https://k.example:6443"


async def test_text_that_can_not_be_read_is_named_by_its_line_and_not_quoted() -> None:
    with pytest.raises(KubeconfigInvalid, match=r"not readable as YAML: line 2$"):
        await connection_from_kubeconfig("users:\n  token: secret: x", KubeconfigPolicy.strict())


async def test_several_files_are_one_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "one" / "config", tmp_path / "two" / "config"
    for file in (first, second):
        file.parent.mkdir()
    first.write_text(dump_yaml({"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}))
    other = kubeconfig({"tokenFile": "token"}) | {"contexts": [{"name": "c", "context": {"cluster": "none"}}]}
    second.write_text(dump_yaml(other))
    (second.parent / "token").write_text("beside the second")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}::{second}")

    connection = await connection_of_environment()

    assert connection.server == "https://k.example:6443"
    assert await connection.credentials.headers() == {"Authorization": "Bearer beside the second"}


async def test_token_file_counts_more_than_the_token_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(dump_yaml(kubeconfig({"token": "expired", "tokenFile": "token"})))

    for content in (None, "renewed"):
        if content is not None:
            (tmp_path / "token").write_text(content)
        connection = await connection_from_kubeconfig(file, PERMISSIVE)
        assert await connection.credentials.headers() == {"Authorization": f"Bearer {content or 'expired'}"}


async def test_plugin_is_found_beside_its_kubeconfig(tmp_path: Path) -> None:
    plugin_in(tmp_path)
    user = {"exec": {"apiVersion": VERSION, "command": "./bin/plugin"}}
    (tmp_path / "config").write_text(dump_yaml(kubeconfig(user)))

    connection = await connection_from_kubeconfig(tmp_path / "config", PERMISSIVE)

    assert await connection.credentials.headers() == {"Authorization": "Bearer given"}
    assert "cluster" not in json.loads((tmp_path / "info").read_text())["spec"]


async def test_plugin_is_told_of_the_cluster_where_it_asks(tmp_path: Path, ca: KeyPair) -> None:
    (tmp_path / "ca.crt").write_bytes(ca.certificate_pem)
    shoot = {"shootRef": {"name": "shoot", "namespace": "garden-kyma"}, "gardenClusterIdentity": "landscape"}
    user = {"exec": {"apiVersion": VERSION, "command": str(plugin_in(tmp_path)), "provideClusterInfo": True}}
    cluster = {
        "certificate-authority": "ca.crt",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": shoot}],
    }
    (tmp_path / "config").write_text(dump_yaml(kubeconfig(user, **cluster)))

    connection = await connection_from_kubeconfig(tmp_path / "config", PERMISSIVE)

    await connection.credentials.headers()
    assert json.loads((tmp_path / "info").read_text())["spec"].get("cluster") == {
        "server": "https://k.example:6443",
        "certificate-authority-data": base64.b64encode(ca.certificate_pem).decode(),
        "config": shoot,
    }


def plugin_in(folder: Path) -> Path:
    """Return an exec plugin that keeps what it receives."""
    script = folder / "bin" / "plugin"
    script.parent.mkdir()
    answer = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": "given"}})
    script.write_text(f"#!/bin/sh\nprintf %s \"$KUBERNETES_EXEC_INFO\" > {folder}/info\necho '{answer}'\n")
    script.chmod(0o700)
    return script


def test_ca_with_a_comment_in_any_language_is_read(ca: KeyPair) -> None:
    context = tls_context(TlsSettings(ca="# Főtanúsítvány\n".encode() + ca.certificate_pem))
    assert context.cert_store_stats()["x509_ca"] == 1


async def test_intermediate_ca_is_trusted_without_its_root(tmp_path: Path) -> None:
    intermediate = signed("intermediate", signed("root", None))
    leaf = signed("server", intermediate, is_ca=False)
    async with api_server(tmp_path, leaf, intermediate) as (port, _):
        encoded = base64.b64encode(intermediate.certificate_pem).decode()
        document = kubeconfig(server=f"https://127.0.0.1:{port}", **{"certificate-authority-data": encoded})
        async with await Client.from_kubeconfig(document) as client:
            assert await client.server_version() == "v1.36.3"


async def test_old_fashioned_ca_of_the_machine_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fields that Python asks for, from 3.13, where it makes a context."""
    root = signed("root", None)
    (tmp_path / "ca.pem").write_bytes(root.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with (
        api_server(tmp_path, signed("server", root, is_ca=False)) as (port, _),
        await Client.from_kubeconfig(kubeconfig(server=f"https://127.0.0.1:{port}")) as client,
    ):
        assert await client.server_version() == "v1.36.3"


@pytest.mark.parametrize("is_watch", [False, True])
async def test_renewed_ca_of_a_pod_is_followed(tmp_path: Path, is_watch: bool) -> None:
    before, after = signed("before", None), signed("after", None)
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes(before.certificate_pem)
    async with api_server(tmp_path, signed("server", before, is_ca=False)) as (port, change_to):
        environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
        async with Client(connection_in_cluster(environment, account)) as client:
            assert await client.server_version() == "v1.36.3"
            change_to(signed("server", after, is_ca=False))
            (account / "ca.crt").write_bytes(after.certificate_pem)
            if is_watch:
                with suppress(Exception):
                    async with client._transport.stream("/version"):  # noqa: SLF001 - as an informer does
                        pass
                async with client._transport.stream("/version") as content:  # noqa: SLF001
                    assert await content.read() == BODY
            else:
                assert await client.server_version() == "v1.36.3"


async def test_requests_that_are_refused_together_are_repeated_with_the_new_certificate(ca: KeyPair) -> None:
    both = asyncio.Event()
    arrived: list[None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.append(None)
        if len(arrived) <= 2:
            if len(arrived) == 2:
                both.set()
            await both.wait()
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async def read_tls() -> TlsSettings:
        return TlsSettings(ca=ca.certificate_pem)

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        connection = Connection(server=address, tls=TlsSettings(), read_tls=read_tls, credentials=FixedHeaders())
        async with Client(connection) as client:
            answers = await asyncio.gather(client.server_version(), client.server_version())
            assert list(answers) == ["v1.36.3"] * 2


def signed(name: str, issuer: KeyPair | None, *, is_ca: bool = True) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = by = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signing: Any = key
    if issuer is not None:
        by = x509.load_pem_x509_certificate(issuer.certificate_pem).subject
        signing = serialization.load_pem_private_key(issuer.key_pem, None)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(by).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(NOW - timedelta(hours=1)).not_valid_after(NOW + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    )
    certificate = builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = serialization.PrivateFormat.PKCS8
    return KeyPair(certificate, key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))


@asynccontextmanager
async def api_server(folder: Path, leaf: KeyPair, *chain: KeyPair) -> AsyncIterator[tuple[int, Any]]:
    """Serve an answer with a certificate; yield the port, and what replaces the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0

    def change_to(pair: KeyPair) -> None:
        file = folder / "server.pem"
        file.write_bytes(pair.certificate_pem + b"".join(each.certificate_pem for each in chain) + pair.key_pem)
        context.load_cert_chain(file)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
        writer.close()

    change_to(leaf)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], change_to
