"""The demo of rollouts: three versions of a module go through a simulated fleet, one of which fails.

`fleet` simulates the control plane and the user clusters; the Lifecycle Manager that runs against them is the real one.
`story` is the sequence of steps, `screen` prints the waves, `running` starts and stops everything.
"""
