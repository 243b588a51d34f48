"""Where the time of a change goes: `flame_graph` samples the programs, `hops` times and accounts for single changes."""
