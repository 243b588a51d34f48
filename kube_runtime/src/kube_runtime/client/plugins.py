"""Credentials that have to be asked for: exec plugins, OpenID Connect and Google, by kubernetes-asyncio.

This is the only module that knows kubernetes-asyncio, and it is imported when a kubeconfig first needs it: the import
takes a second and 88 MiB, and a client certificate or a token needs none of it. The library leaves inline
keys of a kubeconfig in files, so it is never shown any: TLS is ours.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kube_runtime.client.tls import TlsSettings
from kube_runtime.exceptions import KubeconfigInvalid

__all__ = ["PluginCredentials"]

_TLS_KEYS = frozenset({"client-certificate-data", "client-key-data", "client-certificate", "client-key"})


class PluginCredentials:
    """What a plugin of a kubeconfig's user answers, asked again when it is old or was refused."""

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
        self._known: Mapping[str, str] = {}
        self._asking = asyncio.Lock()
        self._loader: Any = None

    async def headers(self) -> Mapping[str, str]:
        """Return what the plugin last answered, and ask it when that is due. Raises KubeconfigInvalid."""
        if self._clock() < self._until:
            return self._known
        async with self._asking:
            if self._clock() >= self._until:
                self._known = await self._ask()
                self._until = self._clock() + min(self._renew_seconds, _seconds_left(self._loader))
        return self._known

    def refused(self) -> bool:
        """The plugin may have another answer."""
        self._until = float("-inf")
        self._loader = None
        return True

    async def certificates(self) -> TlsSettings:
        """Ask the plugin once and return the client certificate that it answers with, if it does."""
        await self.headers()
        if not hasattr(self._loader, "cert_file"):
            return TlsSettings()
        paths = (Path(self._loader.cert_file), Path(self._loader.key_file))
        certificate, key = await asyncio.to_thread(_read_and_remove, paths)
        return TlsSettings(certificate=certificate, key=key)

    async def _ask(self) -> Mapping[str, str]:
        library: Any = await asyncio.to_thread(importlib.import_module, "kubernetes_asyncio.config.kube_config")
        if self._loader is None:
            self._loader = library.KubeConfigLoader(_kubeconfig_of(self._user), config_base_path=None)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._loader._load_authentication()  # noqa: SLF001 - the public call also writes TLS keys to files
        except Exception as error:  # noqa: BLE001 - plugins fail in any way; what they say may hold a secret
            raise KubeconfigInvalid(
                f"the credentials plugin of the kubeconfig failed: {error.__class__.__name__}"
            ) from None
        token = getattr(self._loader, "token", "")
        return {"Authorization": token} if token else {}


def _kubeconfig_of(user: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "only",
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
        "clusters": [{"name": "only", "cluster": {"server": "https://unused.invalid"}}],
        "users": [{"name": "only", "user": dict(user)}],
    }


def _seconds_left(loader: Any) -> float:
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if not isinstance(expiry, datetime):
        return float("inf")
    return max(1.0, (expiry - datetime.now(UTC)).total_seconds() / 2)


def _read_and_remove(paths: tuple[Path, Path]) -> tuple[bytes, bytes]:
    library: Any = importlib.import_module("kubernetes_asyncio.config.kube_config")
    certificate, key = (path.read_bytes() for path in paths)
    for content, name in list(library._temp_files.items()):  # noqa: SLF001 - the library has no other way to forget a key
        if Path(name) in paths:
            del library._temp_files[content]  # noqa: SLF001
            Path(name).unlink(missing_ok=True)
    return certificate, key
