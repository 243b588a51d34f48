"""Sharding work among processes by Leases.

`membership` has every member renew a Lease of its own and shares keys by `rendezvous` hashing; `lease_sharding` does
that for a Manager; `handover` passes an event on to the member that owns its key. The owner of a fixed key that all
share is the leader. Give `check` to `Client.fenced_by`: a process that lost its lease writes nothing more.
"""
