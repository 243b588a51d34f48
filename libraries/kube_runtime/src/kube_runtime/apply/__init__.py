"""Bringing objects into a cluster and taking them out again.

`objects` reads them from a text, `order` says what comes first, `applier` applies and prunes, `memory` spares it what
is known to change nothing, `results` is what it answers, `readiness` judges what became of an object, `existence` finds
out whether one exists.
"""
