"""Rollouts: how the version of a module goes through the fleet in waves, stops by itself, and goes back.

The controller manages the channels of modules that name a RolloutStrategy. It makes a ModuleRollout for each new
version, and releases the version to clusters wave by wave: it writes into the status of their Manifests that they may
have it. The controller of Kymas installs no version that is not released there.
"""

from lifecycle_manager.module_rollouts.controller import setup

__all__ = ["setup"]
