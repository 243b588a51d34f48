"""What shows the inside of a running program: traces of changes, and a debug socket.

`tracing` opens what `spans` and `tail` are made of, which need the extra `tracing`. `debug_server` answers
`debug_client`.
"""

from kyma_diagnostics.tracing import TracingOptions, TracingUnavailable, tracing

__all__ = ["TracingOptions", "TracingUnavailable", "tracing"]
