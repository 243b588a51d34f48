"""The event endpoint: events of Watchers are verified, and published as signals.

`arrival` finds out how a request arrived, `identity` who sent it, `guards` refuses replays and floods, `endpoint`
answers as the contract says, `publishing` turns an event into signals, and `resyncs` limits how often everything of a
Kyma is read again.
"""

from lifecycle_manager.events.resyncs import setup

__all__ = ["setup"]
