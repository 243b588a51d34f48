"""Gardener's certificate management as the issuer of Watchers' certificates, by option. Only `app` knows this room."""

from lifecycle_manager.gardener.certificates import GardenerStore

__all__ = ["GardenerStore"]
