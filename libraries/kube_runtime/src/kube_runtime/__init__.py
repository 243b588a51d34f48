"""A controller runtime for Kubernetes, on asyncio.

A `Client` sends requests to one cluster, an `Informer` caches one kind of object, a `Controller` declares what triggers
its keys and reconciles them, a `Manager` starts and stops all of them, and an `Applier` applies and prunes sets of
objects. Everything runs on one event loop, reads objects as msgspec structs or dicts, and knows no particular kind.

Start with `manager`, then `controller/`, `informer/`, `client/` and `apply/`; `exceptions` draws all errors as a tree.
"""

from kube_runtime.lazy import lazy

__getattr__, __all__ = lazy(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
