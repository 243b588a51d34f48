"""Credentials that have to be asked for: exec plugins, OpenID Connect and Google, by kubernetes-asyncio.

This is the only module that knows kubernetes-asyncio, and it is imported when a kubeconfig first needs it: the import
takes a second and 88 MiB, and a client certificate or a token needs none of it. The library's loader leaves keys in
files, inline ones of a kubeconfig and those that a plugin answers with. So it is never shown any of the former, and an
exec plugin is run by the library without its loader: TLS is ours.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kube_runtime.client.tls import TlsSettings
from kube_runtime.exceptions import KubeconfigInvalid

__all__ = ["PluginCredentials"]

_TLS_KEYS = frozenset({"client-certificate-data", "client-key-data", "client-certificate", "client-key"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a plugin says: a token, a client certificate or both, and for how long they may be used."""

    token: str = ""
    certificates: TlsSettings = field(default_factory=TlsSettings)
    expiry: datetime | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": self.token} if self.token else {}


class PluginCredentials:
    """What a plugin of a kubeconfig's user answers, asked again when it is old or was refused.

    Whoever asks while it is being asked waits for the same answer.
    """

    def __init__(
        self,
        user: Mapping[str, Any],
        *,
        renew_seconds: float = 60.0,
        timeout_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._user = {key: value for key, value in user.items() if key not in _TLS_KEYS}
        self._renew_seconds = renew_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._until = float("-inf")
        self._known = _Answer()
        self._asking = asyncio.Lock()
        self._loader: Any = None

    async def headers(self) -> Mapping[str, str]:
        """Return what the plugin last answered, and ask it when that is due. Raises KubeconfigInvalid."""
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
                self._until = self._clock() + min(self._renew_seconds, _remaining_seconds(self._known.expiry))
            return self._known

    async def _ask(self) -> _Answer:
        library: Any = await asyncio.to_thread(importlib.import_module, "kubernetes_asyncio.config.kube_config")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await (self._run(library) if "exec" in self._user else self._load(library))
        except Exception as error:  # noqa: BLE001 - plugins fail in any way; what they say may hold a secret
            raise KubeconfigInvalid(
                f"the credentials plugin of the kubeconfig failed: {error.__class__.__name__}"
            ) from None

    async def _run(self, library: Any) -> _Answer:
        """Run the exec plugin."""
        status = await library.ExecProvider(library.ConfigNode("exec", self._user["exec"])).run()
        certificate, key = (status.get(name) or "" for name in ("clientCertificateData", "clientKeyData"))
        return _Answer(
            token=f"Bearer {status['token']}" if status.get("token") else "",
            certificates=TlsSettings(certificate=certificate.encode(), key=key.encode()) if key else TlsSettings(),
            expiry=_moment(status.get("expirationTimestamp")),
        )

    async def _load(self, library: Any) -> _Answer:
        """Have the library speak to an identity provider; its loader remembers what that said."""
        loader = self._loader or library.KubeConfigLoader(_kubeconfig_of(self._user), config_base_path=None)
        self._loader = loader
        await loader._load_authentication()  # noqa: SLF001 - the public call also writes TLS keys to files
        return _Answer(token=getattr(loader, "token", "") or "")


def _kubeconfig_of(user: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "only",
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
        "clusters": [{"name": "only", "cluster": {"server": "https://unused.invalid"}}],
        "users": [{"name": "only", "user": dict(user)}],
    }


def _moment(text: object) -> datetime | None:
    """Return the moment that a plugin names as the end of its answer; one that says no zone means UTC."""
    if not isinstance(text, str) or not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _remaining_seconds(expiry: datetime | None) -> float:
    if expiry is None:
        return float("inf")
    return max(1.0, (expiry - datetime.now(UTC)).total_seconds() / 2)
