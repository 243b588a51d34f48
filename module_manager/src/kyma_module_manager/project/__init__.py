"""A module as a project of files: made from a template, checked as a whole, packed for a registry.

Start at `commands`, which are `new`, `validate` and `package` of the command line.
"""
