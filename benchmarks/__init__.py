"""What is claimed about speed, with peers in the same run, as programs anyone can run: `make bench`.

Each program prints one JSON line a figure: name, unit, value, peer, peer_value, ratio, bar, met.
"""
