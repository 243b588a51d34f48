"""Reconciling keys: `controller.Controller` declares what triggers them and keeps their state, `queue` holds them with
their `causes`, `workers` reconcile them, `steps` has the parts of a removal in stages, `retries` spaces failures.
"""
