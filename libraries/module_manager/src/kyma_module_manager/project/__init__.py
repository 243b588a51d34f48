"""A module as a project of files: created from a template, checked, and packaged for a registry.

Start reading at `commands`: `new`, `validate` and `package` of the command line.
"""
