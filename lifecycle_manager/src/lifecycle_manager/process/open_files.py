"""As many open files as the system allows: each connection to a cluster and from a Watcher is one."""

import resource

import structlog

log = structlog.get_logger("lifecycle_manager")

CONNECTIONS_TO_A_CLUSTER = 2
EVERYTHING_ELSE = 200


def allow_open_files(event_connections: int, clients: int) -> None:
    """Raise this process's own limit to the one that it is given, and say where that is too low for its options."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = event_connections + CONNECTIONS_TO_A_CLUSTER * clients + EVERYTHING_ELSE
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning(
            "the limit of open files may be reached: raise it, or lower the options",
            limit=hard,
            needed=needed,
            max_event_connections=event_connections,
            max_warm_skrs=clients,
        )
