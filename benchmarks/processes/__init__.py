"""Processes that benchmarks start: the Lifecycle Manager, real clusters for it, and a simulated fleet."""
