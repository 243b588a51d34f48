"""What the process needs, whatever it manages."""
