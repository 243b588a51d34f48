"""Behaviour on real API servers, charts and images."""
