"""Following a kind of object: `informer.Informer` keeps a `cache.Cache` as the API server has it."""

from kube_runtime.informer.cache import Cache, Index
from kube_runtime.informer.informer import Change, Informer

__all__ = ["Cache", "Change", "Index", "Informer"]
