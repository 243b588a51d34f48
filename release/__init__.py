"""Building what is released: `python -m release.build`, and its version: `python -m release.version 0.2.0`."""
