"""The runtime on a real API server and on a simulated one."""
