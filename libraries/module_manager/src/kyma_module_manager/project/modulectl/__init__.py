"""A module as modulectl describes it: a `module-config.yaml` with the manifest that it names.

`config` reads it, `module` what it refers to; `images` finds the manifest's images, `component` makes of all that the
ModuleTemplate, the component and its constructor, and `checks` says what is wrong.
"""
