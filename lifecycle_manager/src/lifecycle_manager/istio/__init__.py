"""An Istio gateway in front of the listeners of all managers, by option.

The gateway terminates TLS and routes each event by its path: a VirtualService for each Watcher CR names the Service of
its manager (`controller`, then `plan`). `gateway_secret` keeps the Secret with which the gateway serves.
"""

from lifecycle_manager.istio.controller import IstioSettings, setup

__all__ = ["IstioSettings", "setup"]
