"""An Istio gateway in front of the listeners of all managers, by option.

The gateway terminates TLS and routes each event by its path: a VirtualService for each Watcher CR names the Service of
its manager, and the gateway has a Secret with which it serves: `controller`, then `rules`.
Only `app` knows this room.
"""

from lifecycle_manager.istio.controller import setup
from lifecycle_manager.options.watcher import IstioSettings

__all__ = ["IstioSettings", "setup"]
