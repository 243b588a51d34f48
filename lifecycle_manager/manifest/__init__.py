"""Manifest: a module in an SKR, installed there, watched, upgraded and removed."""
