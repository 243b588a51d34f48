"""`klm playground`: a control plane with all its programs, a cluster that has joined, and one that has not yet.

Start reading at `running`. `docs/start/operator.md` goes on from what it prints.
"""
