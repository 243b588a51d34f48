"""The commands, their options and their help. Each imports what it needs late, so that `klm` starts quickly."""
