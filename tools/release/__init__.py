"""Building what is released (`python -m tools.release.build`), and its version (`tools.release.version 0.2.0`)."""
