"""Credentials that have to be asked for: exec plugins, and OpenID Connect and Google by kubernetes-asyncio.

This is the only module that knows kubernetes-asyncio, and it is imported when a kubeconfig first needs it: the import
takes up to three seconds and 88 MiB. An exec plugin, which most clusters of a cloud have, is run without it: nobody
waits so long for each command and each name that he completes. The library's loader leaves keys in files, inline ones
of a kubeconfig, so it is never shown any: TLS is ours.
"""

import asyncio
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kube_runtime.client.tls import TlsSettings
from kube_runtime.exceptions import KubeconfigInvalid

_TIMEOUT_SECONDS = 60.0
_LIBRARY_SECONDS = 60.0
_TLS_KEYS = frozenset({"client-certificate-data", "client-key-data", "client-certificate", "client-key"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a plugin says: a token, a client certificate or both, and for how long they may be used."""

    token: str = ""
    certificates: TlsSettings = field(default_factory=TlsSettings)
    seconds: float = math.inf

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": self.token} if self.token else {}


class PluginCredentials:
    """What a plugin of a kubeconfig's user answers, asked again when that has ended or was refused.

    It may ask its user for a password or a touch each time. Whoever asks while it is being asked waits for the same
    answer.
    """

    def __init__(
        self,
        user: Mapping[str, Any],
        *,
        cluster: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._user = {key: value for key, value in user.items() if key not in _TLS_KEYS}
        self._cluster = cluster
        self._clock = clock
        self._until = float("-inf")
        self._known = _Answer()
        self._asking = asyncio.Lock()
        self._loader: Any = None

    async def headers(self) -> Mapping[str, str]:
        """Return what the plugin last answered, and ask it when that has ended. Raises KubeconfigInvalid."""
        return (await self._answer()).headers

    async def certificates(self) -> TlsSettings:
        """Return the client certificate that the plugin answers with, if it does, as `headers` does the rest."""
        return (await self._answer()).certificates

    def refused(self) -> bool:
        """The plugin may have another answer."""
        self._until = float("-inf")
        self._loader = None
        return True

    async def _answer(self) -> _Answer:
        if self._clock() < self._until:
            return self._known
        async with self._asking:
            if self._clock() >= self._until:
                self._known = await self._ask()
                self._until = self._clock() + self._known.seconds
            return self._known

    async def _ask(self) -> _Answer:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await (_run(self._user["exec"], self._cluster) if "exec" in self._user else self._load())
        except Exception as error:  # noqa: BLE001 - plugins fail in any way; what they say may hold a secret
            plugin = self._user.get("exec") or {}
            text = str(error) if isinstance(error, KubeconfigInvalid) else type(error).__name__
            if isinstance(error, FileNotFoundError | PermissionError):
                text = f"{plugin.get('command')}: {error.strerror}"  # uvloop's error does not name the program
            hint = plugin.get("installHint") if isinstance(error, FileNotFoundError) else None
            why = f"the credentials plugin failed: {text}"
            raise KubeconfigInvalid(" ".join([why, *str(hint or "").split()])) from None

    async def _load(self) -> _Answer:
        """Have the library speak to an identity provider; its loader remembers what that said, and when it ends."""
        library: Any = await asyncio.to_thread(importlib.import_module, "kubernetes_asyncio.config.kube_config")
        loader = self._loader or library.KubeConfigLoader(_kubeconfig_of(self._user), config_base_path=None)
        self._loader = loader
        await loader._load_authentication()  # noqa: SLF001 - the public call also writes TLS keys to files
        return _Answer(token=getattr(loader, "token", "") or "", seconds=_LIBRARY_SECONDS)


async def _run(plugin: Mapping[str, Any], cluster: Mapping[str, Any] | None = None) -> _Answer:
    """Run an exec plugin, and show it the cluster where it is given.

    Raises KubeconfigInvalid, OSError, ValueError, KeyError, TypeError.
    Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """
    version = plugin["apiVersion"]
    is_interactive = plugin.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    spec = {"interactive": is_interactive, **({"cluster": cluster} if cluster is not None else {})}
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    environment = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        plugin["command"],
        *(plugin.get("args") or ()),
        env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
        stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if is_interactive else asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        raise KubeconfigInvalid(f"{plugin['command']} ended with {process.returncode}")
    answer = json.loads(output)
    if answer["apiVersion"] != version:
        raise KubeconfigInvalid(f"{plugin['command']} answers in another version than {version}")
    status = answer["status"]
    certificate, key = (status.get(name) or "" for name in ("clientCertificateData", "clientKeyData"))
    return _Answer(
        token=f"Bearer {status['token']}" if status.get("token") else "",
        certificates=TlsSettings(certificate=certificate.encode(), key=key.encode()) if key else TlsSettings(),
        seconds=_seconds_until(status.get("expirationTimestamp")),
    )


def _kubeconfig_of(user: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "only",
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
        "clusters": [{"name": "only", "cluster": {"server": "https://unused.invalid"}}],
        "users": [{"name": "only", "user": dict(user)}],
    }


def _seconds_until(text: object) -> float:
    """Return how long it is until the moment that a plugin names as the end of its answer; without a zone it is UTC."""
    if not isinstance(text, str) or not text:
        return math.inf
    moment = datetime.fromisoformat(text)
    end = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(1.0, (end - datetime.now(UTC)).total_seconds())
