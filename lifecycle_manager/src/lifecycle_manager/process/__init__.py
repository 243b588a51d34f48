"""What the process needs, whatever it manages: settings, logs, metrics, certificates of its servers, system limits."""
