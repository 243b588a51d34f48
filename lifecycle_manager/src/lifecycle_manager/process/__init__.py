"""What the process needs, whatever it manages: metrics, certificates of its servers, system limits."""
