"""When the modules of the fleet may change: the spread of releases over time, and maintenance windows.

`schedule` returns the timing of this moment, by which a Kyma's modules are resolved; `maintenance` reads the policy.
"""
