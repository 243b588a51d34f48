"""The credentials for a Manifest's layer: from the Secrets that it selects, or else the operator's own."""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass

import msgspec

from kube_runtime import Client, KubeError, NotFound
from kyma_oci import CredentialsInvalid, Login, config_in_secret, login_in
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager_api import ImageSpec, LabelSelector, Manifest, names


@dataclass(frozen=True, eq=False)
class Logins:
    """Reads credentials in the control plane when they are needed. `default_secret` is used where none is selected."""

    kcp: Client
    default_secret: str = ""

    async def login(self, manifest: Manifest, repository: str) -> Login | None:
        """Return the login for a repository, given as host and path. Raises CredentialsInvalid."""
        return await _login(self._secrets(manifest), repository)

    def credentials_scope(self, manifest: Manifest) -> str:
        """Name the credentials of a Manifest: Manifests with the same credentials fail alike."""
        selector = selector_of(manifest)
        return f"{manifest.metadata.namespace}/{selector}" if selector is not None else ""

    async def default_login(self, repository: str) -> Login | None:
        """Return the operator's own login for a repository. Raises CredentialsInvalid."""
        return await _login(self._default(), repository)

    async def _secrets(self, manifest: Manifest) -> Iterable[Secret]:
        selector = selector_of(manifest)
        if selector is None:
            return await self._default()
        found = (await self.kcp.list(SECRETS, manifest.metadata.namespace, label_selector=str(selector))).items
        if not found:
            raise CredentialsInvalid(f"no Secret in {manifest.metadata.namespace} has the labels {selector}")
        return found

    async def _default(self) -> Iterable[Secret]:
        if not self.default_secret:
            return ()
        try:
            return (await self.kcp.get(SECRETS, self.default_secret, names.KCP_NAMESPACE),)
        except NotFound:
            raise CredentialsInvalid(f"there is no Secret {names.KCP_NAMESPACE}/{self.default_secret}") from None


def selector_of(manifest: Manifest) -> LabelSelector | None:
    """Return the selector of the Secrets: that of the source, or that of the configuration beside it."""
    try:
        source = msgspec.json.decode(manifest.spec.install.source, type=ImageSpec)
    except msgspec.MsgspecError:
        source = ImageSpec()
    config = manifest.spec.config or ImageSpec()
    return source.cred_secret_selector or config.cred_secret_selector


async def _login(reading: Awaitable[Iterable[Secret]], repository: str) -> Login | None:
    try:
        found = {f"{each.metadata.namespace}/{each.metadata.name}": each.data for each in await reading}
    except KubeError as error:
        raise CredentialsInvalid(f"the registry's credentials can't be read: {error}") from None
    return login_in([config_in_secret(found[name], name) for name in sorted(found)], repository)
