"""Following one kind of object: `informer.Informer` keeps a `cache.Cache` equal to what the API server holds, and
`own_writes` bridges the moment between a write of this process and the event that shows it.
"""

from kube_runtime.informer.cache import Cache, Index
from kube_runtime.informer.informer import Change, Informer

__all__ = ["Cache", "Change", "Index", "Informer"]
