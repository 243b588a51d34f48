"""A rotation that another replica has begun is followed as soon as the Secret says so."""

from types import SimpleNamespace
from typing import Any

from kube_runtime import Change, ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.resources import Secret
from lifecycle_manager.wiring import Wiring
from lifecycle_manager_api import ObjectMeta, names

KEY = ObjectKey(names.KCP_NAMESPACE, "klm-watcher")


def woken_by(change: Change[Secret]) -> list[ObjectKey]:
    woken: list[ObjectKey] = []
    queue = SimpleNamespace(queue=SimpleNamespace(add=lambda key, _: woken.append(key)))
    reconcilers = SimpleNamespace(authority=SimpleNamespace(key=KEY))
    controllers: Any = SimpleNamespace(reconcilers=reconcilers, authority=queue)
    informers: Any = SimpleNamespace(kymas=SimpleNamespace(cache=Cache({})))
    Wiring(informers, controllers)._secret_changed(change)
    return woken


def secret(name: str) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=names.KCP_NAMESPACE))


def test_change_and_deletion_of_the_authoritys_secret_wake_the_rotation() -> None:
    ours = secret(KEY.name)
    for change in (Change(None, ours), Change(ours, ours), Change(ours, None)):
        assert woken_by(change) == [KEY]


def test_other_secrets_do_not() -> None:
    assert woken_by(Change(None, secret("demo-webhook-tls"))) == []
