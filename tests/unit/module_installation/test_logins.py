"""Which of several Secrets gives the login for a layer, and what is reported of those that can't be read."""

import base64
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Client, KubeError
from kyma_oci import CredentialsInvalid, Login
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.module_installation import Logins
from lifecycle_manager_api import Manifest

REPOSITORY = "r.example.com/modules/one"
SELECTED = {"credSecretSelector": {"matchLabels": {"pull": "yes"}}}


def secret(name: str, data: Mapping[str, str]) -> Secret:
    return msgspec.convert({"metadata": {"name": name, "namespace": "kcp-system"}, "data": data}, Secret)


def with_login(name: str) -> Secret:
    config = msgspec.json.encode({"auths": {"r.example.com": {"username": name, "password": "p"}}})
    return secret(name, {".dockerconfigjson": base64.b64encode(config).decode()})


def manifest() -> Manifest:
    metadata = {"name": "demo-garden", "namespace": "kcp-system"}
    document = {"metadata": metadata, "spec": {"remote": True, "install": {"name": "one", "source": SELECTED}}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Manifest)


def logins(*found: Secret | Exception) -> Logins:
    async def listed(*_: Any, **__: Any) -> Any:
        for each in found:
            if isinstance(each, Exception):
                raise each
        return SimpleNamespace(items=found)

    return Logins(cast("Client", SimpleNamespace(list=listed)))


async def test_first_secret_by_name_gives_the_login() -> None:
    assert await logins(with_login("b"), with_login("a")).login(manifest(), REPOSITORY) == Login("a", "p")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((), "no Secret in kcp-system has the labels pull=yes"),
        ((with_login("a"), secret("empty", {})), "Secret kcp-system/empty has no key '.dockerconfigjson'"),
        ((KubeError("the server is gone"),), "the registry's credentials can't be read: the server is gone"),
    ],
    ids=["none", "without a config", "unreadable"],
)
async def test_secret_that_is_missing_or_unreadable_is_reported(
    found: tuple[Secret | Exception, ...], says: str
) -> None:
    with pytest.raises(CredentialsInvalid) as raised:
        await logins(*found).login(manifest(), REPOSITORY)
    assert says in str(raised.value)
