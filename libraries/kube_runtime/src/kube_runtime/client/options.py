"""Limits of a client: time, rate and size."""

from dataclasses import dataclass

from kube_runtime.client.http_session import HttpSession
from kube_runtime.client.limits import AnswerMemory
from kube_runtime.metrics import RuntimeMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Limits of one client. The defaults suit a cluster that is trusted and near.

    - `timeout_seconds`: for a whole request with its answer; `connect_timeout_seconds` for the connection alone
    - `qps`, `burst`: requests a second, and how many may go at once before the rate applies; `qps=0` is no limit
    - `max_in_flight`: requests under way at the same time; watches don't count. `max_in_background`: how many of them
      may be those of reconciles for which no user waits
    - `attempts`: how often a request is sent that is refused with Retry-After
    - `max_retry_after_seconds`: the longest wait before another attempt; a longer one is left to the caller
    - `max_response_bytes`, `max_event_bytes`: the size of a response and of one line of a watch
    - `max_values`: how many values one response has, and all pages of a list of untyped objects, for servers that are
      not trusted: a decoded value needs up to 24 times the bytes of its text
    - `max_list_bytes`: the size of all pages of one list together, for servers that are not trusted
    - `read_buffer_bytes`: how much of an answer is taken from the network before it is read
    - `answer_memory`: what answers of several clients that are longer than that take together
    - `session`: what the clients with these options share; each of many clients then takes a third of the memory
    - `watch_seconds`: how long the server is asked to keep a watch open
    - `watch_silence_seconds`: after how long without a line a watch counts as broken. It is more than `watch_seconds`,
      as a server sends no bookmarks of a kind that did not change since it started. A peer that is gone is noticed
      after a minute, by TCP
    - `keep_alive_seconds`: how long an idle connection is kept open
    - `circuit`: after a request without a response, fail at once until a probe gets one (`Client.probe`)
    """

    timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    qps: float = 200.0
    burst: int = 400
    max_in_flight: int = 100
    max_in_background: int | None = None
    attempts: int = 4
    max_retry_after_seconds: float = 10.0
    max_response_bytes: int = 256 * 1024 * 1024
    max_event_bytes: int = 32 * 1024 * 1024
    max_values: int | None = None
    max_list_bytes: int | None = None
    read_buffer_bytes: int = 256 * 1024
    answer_memory: AnswerMemory | None = None
    session: HttpSession | None = None
    watch_seconds: float = 290.0
    watch_silence_seconds: float = 330.0
    keep_alive_seconds: float = 80.0
    circuit: bool = False
    user_agent: str = "kube-runtime"
    metrics: RuntimeMetrics | None = None


DEFAULT_OPTIONS = ClientOptions()
