"""Faults of servers, networks and processes."""
