"""The former version is taken over on real clusters that all files share."""
