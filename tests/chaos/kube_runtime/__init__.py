"""The runtime on an API server that these tests share, stop and restart."""
