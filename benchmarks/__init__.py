"""The benchmarks behind each figure of the docs, with a peer in the same run: `make bench`.

Each program prints one JSON line for each figure: name, unit, value, peer, peer_value, ratio, bar, met.
"""
