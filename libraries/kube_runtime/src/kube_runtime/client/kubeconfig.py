"""Reading a kubeconfig, and refusing what it must not make this process do.

A kubeconfig is a small program: it can have a command run, files read and sent to a server, and TLS switched off. One
that comes from somebody else is therefore held to a policy before anything in it is acted upon.
"""

import asyncio
import base64
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kube_runtime.client.credentials import Credentials, FixedHeaders, TokenFile, basic, bearer
from kube_runtime.client.plugins import PluginCredentials
from kube_runtime.client.proxies import proxy_of_environment, usable_proxy
from kube_runtime.client.tls import TlsSettings
from kube_runtime.exceptions import KubeconfigInvalid, KubeconfigRefused, ManifestInvalid
from kube_runtime.yaml_text import load_documents

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_SHOWN, MAX_LISTED = 100, 20
_LISTS = {"contexts": "context", "clusters": "cluster", "users": "user"}
_FOR_PLUGINS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_FILE_KEYS = ("client-certificate", "client-key", "tokenFile")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigPolicy:
    """What a kubeconfig may ask for. `strict` is for one that somebody else wrote, `permissive` for one's own.

    - `allow_plugins`: run a command, or speak to an identity provider
    - `allow_files`: read certificates, keys or a token from paths
    - `allow_insecure`: skip the verification of the server's certificate, or speak plain HTTP
    - `allow_proxy`: send everything by a proxy of the kubeconfig's choice
    - `allow_impersonation`: act as another user than the one who authenticates
    """

    allow_plugins: bool = False
    allow_files: bool = False
    allow_insecure: bool = False
    allow_proxy: bool = False
    allow_impersonation: bool = False

    @classmethod
    def strict(cls) -> "KubeconfigPolicy":
        """Allow inline credentials over verified TLS, and nothing else."""
        return cls()

    @classmethod
    def permissive(cls) -> "KubeconfigPolicy":
        """Allow everything that a kubeconfig can ask for."""
        return cls(
            allow_plugins=True, allow_files=True, allow_insecure=True, allow_proxy=True, allow_impersonation=True
        )


STRICT = KubeconfigPolicy.strict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where an API server is and how to speak to it.

    `read_tls` reads what `tls` was read from once more, where somebody may have renewed it.
    """

    server: str
    tls: TlsSettings | None
    credentials: Credentials = field(repr=False)
    read_tls: Callable[[], Awaitable[TlsSettings]] | None = field(default=None, repr=False)
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    impersonation: Mapping[str, str] = field(default_factory=dict)


async def connection_from_kubeconfig(
    source: Path | str | Mapping[str, Any], policy: KubeconfigPolicy, context: str | None = None
) -> Connection:
    """Return the connection that a kubeconfig describes: a file, its text, or the document.

    Raises KubeconfigInvalid and KubeconfigRefused; neither quotes a secret.
    """
    base = source.parent if isinstance(source, Path) else Path()
    document = _document(source)
    chosen = _named(document, "contexts", "context", context or document.get("current-context"))
    cluster = _named(document, "clusters", "cluster", chosen.get("cluster"))
    user = _named(document, "users", "user", chosen.get("user")) if chosen.get("user") else {}
    _enforce(policy, cluster, user)
    cluster, user = _located(cluster, base), _located(user, base)
    server = _server_of(cluster)
    tls, credentials = _tls_of(cluster, user), _credentials_of(cluster, user)
    read_tls: Callable[[], Awaitable[TlsSettings]] | None = None
    if isinstance(credentials, PluginCredentials) and tls.certificate is None:
        plugin, without = credentials, tls

        async def read_tls() -> TlsSettings:
            asked = await plugin.certificates()
            return replace(without, certificate=asked.certificate, key=asked.key)

        tls = await read_tls()
    elif _refers_to_files(cluster, user):

        async def read_tls() -> TlsSettings:
            return await asyncio.to_thread(_tls_of, cluster, user)

    is_tls = server.startswith("https:")
    return Connection(
        server=server,
        tls=tls if is_tls else None,
        read_tls=read_tls if is_tls else None,
        credentials=credentials,
        server_name=_server_name_of(cluster),
        proxy=_proxy_of(cluster, server),
        impersonation=_impersonation_of(user),
    )


def kubeconfig_document(text: str | bytes, file: Path | str = "") -> dict[str, Any]:
    """Return the first document of a text, in which the last of repeated keys counts, as for kubectl.

    Raises KubeconfigInvalid, which names its file and quotes nothing of it.
    """
    name = f"the kubeconfig {file}".rstrip()
    try:
        document = next(load_documents(text, repeated=[]), None)
    except ManifestInvalid as error:
        where = re.search(r": line \d+", str(error))
        raise KubeconfigInvalid(f"{name} is not readable as YAML{where[0] if where else ''}") from None
    if not isinstance(document, dict):
        raise KubeconfigInvalid(f"{name} is no YAML mapping")
    return document


def entries_by_name(document: Mapping[str, Any], plural: str) -> dict[Any, Any]:
    """Return the contexts, clusters or users; what is no mapping is none. Raises LookupError or TypeError."""
    return {each.get("name"): each for each in document[plural] if isinstance(each, Mapping)}


def server_of_kubeconfig(text: str) -> str:
    """Return the address of the API server to which a kubeconfig leads. Raises KubeconfigInvalid."""
    document = kubeconfig_document(text)
    chosen = _named(document, "contexts", "context", document.get("current-context"))
    return _server_of(_named(document, "clusters", "cluster", chosen.get("cluster")))


async def connection_of_environment(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """Return the connection that kubectl would take: by the file given, else as a Pod, else by the user's own files.

    It is one's own configuration, so it may ask for everything. Raises KubeconfigInvalid where there is none.
    """
    paths = (kubeconfig,) if kubeconfig is not None else kubeconfigs_of_user(os.environ)
    if not paths:
        return connection_in_cluster(os.environ)
    source = paths[0] if len(paths) == 1 else _merged(paths)
    return await connection_from_kubeconfig(source, KubeconfigPolicy.permissive(), context)


def kubeconfigs_of_user(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the kubeconfigs that kubectl would take: $KUBECONFIG, or in no cluster the one in the home directory.

    Of several in $KUBECONFIG those that exist count, as for kubectl; the first one where none does.
    """
    if named := [Path(each).expanduser() for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]:
        return tuple(each for each in named if each.exists()) or (named[0],)
    home = Path("~/.kube/config").expanduser()
    return (home,) if home.exists() and "KUBERNETES_SERVICE_HOST" not in environment else ()


def namespace_of_pod() -> str | None:
    """Return the namespace of the Pod that this process is in, None outside of one."""
    file = SERVICE_ACCOUNT / "namespace"
    return file.read_text().strip() if file.is_file() else None


def connection_in_cluster(environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection of a Pod to its own cluster, by no proxy. Raises KubeconfigInvalid outside of one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigInvalid("KUBECONFIG is not set, ~/.kube/config does not exist, and this program runs in no Pod")
    address = f"[{host}]" if ":" in host else host
    certificates = account / "ca.crt"

    async def read_tls() -> TlsSettings:
        return TlsSettings(ca=await asyncio.to_thread(_read, certificates))

    return Connection(
        server=f"https://{address}:{port}",
        tls=TlsSettings(ca=_read(certificates)),
        read_tls=read_tls,
        credentials=TokenFile(account / "token"),
    )


def _merged(paths: Sequence[Path]) -> Mapping[str, Any]:
    """Return several kubeconfigs as one: of each name the first counts, and paths are relative to their own file."""
    merged: dict[str, Any] = {plural: [] for plural in _LISTS}
    for path in paths:
        document = _document(path)
        for plural, singular in _LISTS.items():
            known = {str(each.get("name")) for each in merged[plural]}
            listed = document.get(plural)
            for entry in listed if isinstance(listed, list) else ():
                if isinstance(entry, Mapping) and str(entry.get("name")) not in known:
                    section = entry.get(singular)
                    located = _located(section, path.parent) if isinstance(section, Mapping) else section
                    merged[plural].append({**entry, singular: located})
        merged["current-context"] = merged.get("current-context") or document.get("current-context")
    return merged


def _located(section: Mapping[str, Any], base: Path) -> Mapping[str, Any]:
    """Return a cluster, user or context with its paths made absolute, and that of a plugin's command."""
    located = dict(section)
    for key in ("certificate-authority", *_FILE_KEYS):
        if isinstance(path := section.get(key), str) and path:
            located[key] = str(base.absolute() / path)
    plugin = section.get("exec")
    if isinstance(plugin, Mapping) and isinstance(command := plugin.get("command"), str) and os.sep in command:
        located["exec"] = {**plugin, "command": str(base.absolute() / command)}
    return located


def _document(source: Path | str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    return kubeconfig_document(_read(source), source) if isinstance(source, Path) else kubeconfig_document(source)


def _named(document: Mapping[str, Any], plural: str, singular: str, name: object) -> Mapping[str, Any]:
    listed = document.get(plural)
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    found = [entry.get(singular) for entry in entries if entry.get("name") == name]
    if not name or len(found) != 1:
        raise KubeconfigInvalid(_not_found(entries, plural, singular, name, len(found)))
    if found[0] is None:
        return {}
    if not isinstance(found[0], Mapping):
        raise KubeconfigInvalid(f"the {singular} in the kubeconfig is no mapping")
    return {key: value for key, value in found[0].items() if value is not None}  # null is nothing, as for kubectl


def _not_found(entries: list[Mapping[str, Any]], plural: str, singular: str, name: object, count: int) -> str:
    if name and count:
        return f"the kubeconfig has {count} {plural} named {str(name)[:MAX_SHOWN]!r}"
    names = [str(each.get("name"))[:MAX_SHOWN] for each in entries]
    listed = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")
    missing = (
        f"the kubeconfig has no {singular} {str(name)[:MAX_SHOWN]!r}" if name else f"the kubeconfig names no {singular}"
    )
    close = get_close_matches(str(name), names, n=1) if name else []
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{missing}; it has the {plural}: {listed or 'none'}{meant}"


def _enforce(policy: KubeconfigPolicy, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    server = str(cluster.get("server", ""))
    insecure = bool(cluster.get("insecure-skip-tls-verify")) or not server.lower().startswith("https:")
    refusals = {
        "it runs an exec plugin": "exec" in user and not policy.allow_plugins,
        "it uses an auth provider plugin": "auth-provider" in user and not policy.allow_plugins,
        "it refers to files": _refers_to_files(cluster, user) and not policy.allow_files,
        "it switches TLS verification off": insecure and not policy.allow_insecure,
        "it goes by a proxy": bool(cluster.get("proxy-url")) and not policy.allow_proxy,
        "it impersonates another user": bool(_impersonation_of(user)) and not policy.allow_impersonation,
    }
    reasons = [reason for reason, refused in refusals.items() if refused]
    if reasons:
        raise KubeconfigRefused(f"the kubeconfig is refused: {', '.join(reasons)}")


def _refers_to_files(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> bool:
    return bool(cluster.get("certificate-authority")) or any(user.get(key) for key in _FILE_KEYS)


def _server_of(cluster: Mapping[str, Any]) -> str:
    server = _text(cluster, "server") or ""
    try:
        parts = urlsplit(server)
        host = _host(parts.hostname or "")
        is_plain = host and parts.port != 0 and not (parts.username or parts.query or parts.fragment)
    except ValueError:  # a port out of range, a host in open brackets, or an invalid name
        raise KubeconfigInvalid(
            "the server in the kubeconfig has no valid address: expected https://host:port"
        ) from None
    if parts.scheme not in {"http", "https"} or not is_plain:
        raise KubeconfigInvalid("the server in the kubeconfig is no plain http or https address")
    return f"{parts.scheme}{server[len(parts.scheme) :]}".rstrip("/")  # the scheme in small letters


def _proxy_of(cluster: Mapping[str, Any], server: str) -> str | None:
    proxy = _text(cluster, "proxy-url")
    try:
        return usable_proxy(proxy, "proxy-url in the kubeconfig") if proxy else proxy_of_environment(server)
    except ValueError as error:
        raise KubeconfigInvalid(str(error)) from None


def _server_name_of(cluster: Mapping[str, Any]) -> str | None:
    try:
        return _host(_text(cluster, "tls-server-name") or "") or None
    except ValueError:
        raise KubeconfigInvalid("tls-server-name in the kubeconfig is not a host name") from None


def _host(name: str) -> str:
    """Return the name of a host. Raises ValueError for one that could be asked for nowhere, as at each request."""
    name.encode("idna")
    if not name.isprintable():
        raise ValueError("control characters in the name of a host")
    return name


def _tls_of(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> TlsSettings:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if (certificate is None) != (key is None):
        raise KubeconfigInvalid("a client certificate needs a client key, and the other way round")
    verify = not cluster.get("insecure-skip-tls-verify")
    return TlsSettings(_pem(cluster, "certificate-authority"), certificate, key, verify)


def _credentials_of(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Credentials:
    if "exec" in user or "auth-provider" in user:
        plugin = user.get("exec")
        is_shown = isinstance(plugin, Mapping) and plugin.get("provideClusterInfo") is True
        return PluginCredentials(user, cluster=_shown_to_plugins(cluster) if is_shown else None)
    token = _text(user, "token")
    if token_file := _text(user, "tokenFile"):  # as for kubectl, it counts more than a token beside it
        return TokenFile(Path(token_file), otherwise=token)
    if token:
        return FixedHeaders(bearer(token))
    name, password = _text(user, "username"), _text(user, "password")
    return FixedHeaders(basic(name, password) if name and password else "")


def _shown_to_plugins(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an exec plugin with `provideClusterInfo` receives of the cluster, and what its kubeconfig adds."""
    shown = {key: cluster[key] for key in _FOR_PLUGINS if cluster.get(key)}
    if ca := _pem(cluster, "certificate-authority"):
        shown["certificate-authority-data"] = base64.b64encode(ca).decode()
    listed = cluster.get("extensions")
    extensions = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    found = [each["extension"] for each in extensions if each.get("name") == _EXEC_EXTENSION and "extension" in each]
    return {**shown, "config": found[0]} if found else shown


def _impersonation_of(user: Mapping[str, Any]) -> Mapping[str, str]:
    if any(key.startswith("as-") and value for key, value in user.items()):
        raise KubeconfigInvalid("impersonation of groups, a uid or extra fields is not supported")
    name = _text(user, "as")
    return {"Impersonate-User": name} if name else {}


def _pem(section: Mapping[str, Any], key: str) -> bytes | None:
    if inline := _text(section, f"{key}-data"):
        try:
            return base64.b64decode(inline.replace("\n", "").replace("\r", ""), validate=True)  # as Go reads it
        except ValueError:  # also for characters outside of ASCII
            raise KubeconfigInvalid(f"{key}-data in the kubeconfig is not base64") from None
    path = _text(section, key)
    return _read(Path(path)) if path else None


def _text(section: Mapping[str, Any], key: str) -> str | None:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise KubeconfigInvalid(f"{key} in the kubeconfig is no text")
    return value or None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigInvalid(f"{path} can't be read: {error.strerror or error.__class__.__name__}") from None
