"""A day of a fleet, compressed, and judged.

`make day` runs it (`python -m benchmarks.day`). `script` is the table of what happens at which hour, and `actions`
has a function for each. `stage` has what runs: a control plane with etcd, the replicas of Lifecycle Manager behind
a proxy in the place of a Service, a Module Manager, and the user clusters. `clusters` is the program of the simulated
ones, with their users and Watchers (`watchers`). All is judged from outside: `observing` samples the processes,
`judging` has the rules, and `report` writes what they found.
"""
