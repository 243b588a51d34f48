"""What several domains share."""
