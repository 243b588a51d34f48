"""The options of `klm run`: a module for each group of its `--help`, in which a class holds the settings of a domain.

The classes are pydantic models (`model`); a field with a `validation_alias` is the option of that name, and
its description is what `--help` says. The names are upstream Kyma's where they mean the same, so that existing
Deployments carry over. An option that several domains need is declared in `shared`, once;
where it is not given, each has its own default. `lifecycle_manager.settings` reads the values.
"""
