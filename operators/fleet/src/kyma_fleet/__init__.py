"""The commands of `klm` for operators of a fleet, over a kubeconfig of the control plane (KCP).

`cli` declares the commands and imports nothing heavy. Each question has modules of its own: what there is (`listing`),
how the fleet is (`overview`), why a cluster is as it is (`explanation`), what to do about it (`steering`). What they
decide is in pure functions; what they print has passed `text.plain`, because it comes from clusters that nobody trusts.
"""
