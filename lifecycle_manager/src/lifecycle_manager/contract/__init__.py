"""What several domains share, so that none has to import another one.

- `resources`: the kinds of KCP and of SKRs; `indexes`: the indexes of their caches; `changes`: predicates of triggers
- `conditions`: the conditions of a Kyma by which the domains follow each other; `verdict`: what became of a Module CR
- `fleet`: how many clusters are in which state, and why
- `identity`: the runtime id of an SKR; `offsets`: the time of a Kyma within an interval
- `signals`: typed messages for what no resource says
- `former`: the marks of objects that the Lifecycle Manager in Go wrote
- `writes`, `owned_fields`: writes of status and metadata, and which fields of a status are ours
"""
