"""What only the takeover of a control plane from the Lifecycle Manager in Go needs (docs/migration.md).

- `extension`: what the service finds by an entry point, and calls at its start
- `marks`: by which the objects of the former version are recognized
- `certificates`: its CA, which is adopted
- `lease`: nothing works here while the former version does
- `split`: unless each has its own Kymas; `sharding`: what both have in common
- `flags`: its command line
- `adoption`: what `klm adopt` does

Nothing imports this package, so that it can be deleted.
"""
