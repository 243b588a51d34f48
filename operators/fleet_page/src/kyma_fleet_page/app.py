"""The pages: fleet, cluster, modules. Read-only; shown to whom `Access` allows, and to nobody without a token."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from kube_runtime import SYSTEM_CLOCK, Clock, KubeError
from kyma_fleet.problems import Problem
from kyma_fleet_page import rollouts
from kyma_fleet_page.access import AccessDecision, Authorizer, MayList
from kyma_fleet_page.clusters import Clusters, conditions_of, modules_of
from kyma_fleet_page.fleet import Grouping, grouped
from kyma_fleet_page.guard import Guard
from kyma_fleet_page.live import Live
from kyma_fleet_page.oidc import CALLBACK, IdentityProvider
from kyma_fleet_page.oidc_sign_in import OidcSignIn
from kyma_fleet_page.sessions import OperatorSessions
from kyma_fleet_page.signing_in import ONCE, OwnLink, SignIn
from kyma_fleet_page.streams import Streams, event, filter_of, recent_changes
from kyma_fleet_page.templating import environment, link
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_ROLLOUTS
from lifecycle_manager_api import ModuleReleaseMeta, find, names

MAX_PAGES = 200
MAX_OF_ONE_USER = 20
HEARTBEAT_SECONDS = 2.0
"""An open page receives something at least this often: it knows that it is live, and its user is authorised again."""
STATIC = {
    "fleet.css": "text/css; charset=utf-8",
    "fleet.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "htmx-sse.min.js": "text/javascript; charset=utf-8",
    "LICENSES.txt": "text/plain; charset=utf-8",
}


def create_app(
    clusters: Clusters,
    access: Authorizer,
    *,
    control_plane: str = "",
    hosts: Collection[str] = (),
    provider: IdentityProvider | None = None,
    own_link: OwnLink | None = None,
    clock: Clock = SYSTEM_CLOCK,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> Guard:
    """Return the application. `control_plane` is its name, `hosts` are those of the page beside loopback addresses.

    `provider`: where its users may sign in, beside the form for a token; `own_link`: where it is of one operator alone.
    """
    app = FastAPI(title="Kyma fleet", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    pages = _Pages(clusters, access, clock=clock, heartbeat_seconds=heartbeat_seconds)
    pages.templates.globals |= {
        "single_sign_on": provider is not None,
        "is_own": own_link is not None,
        "control_plane": control_plane,
    }
    static = {name: files("kyma_fleet_page").joinpath("static", name).read_bytes() for name in STATIC}

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return Response("not found\n", 404, media_type="text/plain")
        return Response(static[name], media_type=STATIC[name], headers={"Cache-Control": "max-age=300"})

    app.add_route("/static/{name}", asset, methods=["GET"])
    app.add_route("/sign-in", pages.signing_in.sign_in, methods=["POST"])
    app.add_route("/sign-out", pages.signing_in.sign_out, methods=["POST"])
    if provider is not None:
        single_sign_on = OidcSignIn(provider, pages.signing_in)
        app.add_route("/sign-in/begin", single_sign_on.begin, methods=["GET"])
        app.add_route(CALLBACK, single_sign_on.complete, methods=["GET"])
    if own_link is not None:
        app.add_route(ONCE, partial(own_link, pages.signing_in), methods=["GET"])
    for path, page in {
        "/": pages.fleet,
        "/squares": pages.squares,
        "/live": pages.live,
        "/ping": pages.ping,
        "/modules": pages.modules,
        "/modules/{name}": pages.module,
        "/rollouts/{name}": pages.rollout,
        "/kymas/{name}": pages.cluster,
        "/kymas/{name}/tree": pages.tree,
        "/kymas/{name}/change": pages.change,
        "/kymas/{name}/objects": pages.objects,
        "/kymas/{name}/modules/{module}/difference": pages.difference,
        "/{path:path}": pages.unknown,
    }.items():
        app.add_route(path, pages.signing_in.protected(page), methods=["GET"])
    return Guard(app, [each.lower() for each in hosts])


class _Pages:
    def __init__(self, clusters: Clusters, access: Authorizer, *, clock: Clock, heartbeat_seconds: float) -> None:
        self._clusters = clusters
        self._access = access
        self.signing_in = SignIn(access, OperatorSessions(clock), self._html)
        self._live = Live(clusters.kymas.list, clusters.rollouts.list, clusters.releases.list)
        self._open: Counter[str] = Counter()
        self.templates = environment()
        self._streams = Streams(self._live, self.templates, heartbeat_seconds)

    async def fleet(self, request: Request) -> Response:
        """Show all clusters that match the filter."""
        wanted, fleet = filter_of(request.query_params), self._live.current()
        version = self._live.version  # of this fleet: it may be another one after the next wait
        may_list_rollouts = await self._rights_of(request)(MODULE_ROLLOUTS, names.KCP_NAMESPACE)
        return await self._rendered(
            request,
            "fleet.html",
            under_way=rollouts.under_way(fleet.rollouts) if may_list_rollouts else None,
            completed=rollouts.last_completed(fleet.rollouts),
            fleet=fleet,
            wanted=wanted,
            squares=fleet.shown(wanted),
            groups=get_args(Grouping)[1:],
            recent=recent_changes(fleet),
            live=f"shown={version}&{link(wanted).partition('?')[2]}",
            total=len(fleet.clusters),
        )

    async def squares(self, request: Request) -> Response:
        """Show the squares alone, for a page that loads them anew."""
        wanted, fleet = filter_of(request.query_params), self._live.current()
        return await self._rendered(
            request, "shown.html", fleet=fleet, wanted=wanted, squares=fleet.shown(wanted), total=len(fleet.clusters)
        )

    async def unknown(self, request: Request) -> Response:
        """Say that there is no such page."""
        return await self._missing(request, f"page {request.url.path}")

    async def ping(self, _: Request) -> Response:
        """Answer a page whose stream is silent: it loads itself anew."""
        return Response(status_code=204)

    async def live(self, request: Request) -> Response:
        """Send what changes, as server-sent events."""
        token = self.signing_in.token_of(request)
        user = await self._access.user_of(token)
        if self._is_full(user):
            return Response("too many open pages\n", 503, headers={"Retry-After": "30"}, media_type="text/plain")
        shown = request.query_params.get("shown", "")
        kyma = request.query_params.get("kyma", "")
        rollout = request.query_params.get("rollout", "")
        version = int(shown[:9]) if shown.isdecimal() else -1
        if kyma:
            changes = self._streams.revisions(partial(self._revision, kyma), shown)
        elif rollout:
            changes = self._streams.revisions(
                lambda: rollouts.revision_of(self._clusters.rollouts.list(), rollout), shown
            )
        else:
            changes = self._streams.fleet(version, request.query_params, self._rights_of(request))
        stream = self._while_allowed(request, user, token, changes)
        unbuffered = {"X-Accel-Buffering": "no"}  # nginx, as a proxy, would keep events back
        return StreamingResponse(stream, headers=unbuffered, media_type="text/event-stream")

    async def modules(self, request: Request) -> Response:
        """Show all modules with their versions and states."""
        releases = await self._releases(request)
        known = {each.spec.module_name: each for each in releases or ()}
        counts = self._live.current().modules
        modules = [(name, known.get(name), counts.get(name, {})) for name in sorted({*known, *counts})]
        return await self._rendered(
            request, "modules.html", modules=modules, hidden=releases is None, live=self._live_reload()
        )

    async def module(self, request: Request) -> Response:
        """Show one module: versions, channels, states."""
        name = request.path_params["name"]
        fleet = self._live.current()
        live = self._live_reload()  # of this fleet: it may be another one after the next wait
        releases = await self._releases(request) or ()
        release = next((each for each in releases if each.spec.module_name == name), None)
        if release is None and name not in fleet.modules:
            return await self._missing(request, f"module {name} in this control plane")
        may_list = await self._rights_of(request)(MODULE_ROLLOUTS, names.KCP_NAMESPACE)
        its = fleet.rollouts if may_list else ()
        return await self._rendered(
            request,
            "module.html",
            name=name,
            release=release,
            rollouts=rollouts.rollouts_of_module(its, name),
            taken_back=rollouts.taken_back_in(its, release),
            counts=fleet.modules.get(name, {}).items(),
            live=live,
        )

    async def rollout(self, request: Request) -> Response:
        """Show one rollout: waves, clusters that failed, approvals."""
        name = request.path_params["name"]
        found = next(
            (each for each in rollouts.shown_rollouts(self._clusters.rollouts.list()) if each.name == name), None
        )
        if found is None or not await self._rights_of(request)(MODULE_ROLLOUTS, names.KCP_NAMESPACE):
            return await self._missing(request, f"ModuleRollout {name} in this control plane")
        live = urlencode({"rollout": name, "shown": found.revision})
        return await self._rendered(request, "rollout.html", shown=found, live=live)

    async def cluster(self, request: Request) -> Response:
        """Show one cluster as a tree."""
        return await self._cluster(request, "cluster.html")

    async def tree(self, request: Request) -> Response:
        """Show the tree alone, for a page that loads it anew."""
        return await self._cluster(request, "tree.html")

    async def change(self, request: Request) -> Response:
        """Show the last change of a cluster: it is read from the API server, so only when the page asks for it."""
        return await self._read_now(request, "change.html", self._clusters.last_change)

    async def objects(self, request: Request) -> Response:
        """Show the Kyma and what belongs to it as YAML, as it is in the control plane."""
        return await self._read_now(request, "objects.html", self._clusters.objects)

    async def difference(self, request: Request) -> Response:
        """Show what would change of a module in a cluster, by a dry run there."""
        name, module = request.path_params["name"], request.path_params["module"]
        kyma = self._clusters.kyma(name)
        if kyma is not None and module not in {each.name for each in kyma.status.modules}:
            return await self._missing(request, f"module {module} in the cluster of Kyma {name}")
        return await self._read_now(
            request, "difference.html", lambda kyma, may_list: self._clusters.difference(kyma, module, may_list)
        )

    async def _read_now(
        self, request: Request, template: str, read: Callable[[str, MayList], Awaitable[Sequence[object]]]
    ) -> Response:
        """Show what is read of a cluster on request, or why it cannot be read."""
        name = request.path_params["name"]
        if self._clusters.kyma(name) is None:
            return await self._missing(request, f"Kyma {name} in this control plane")
        found: Sequence[object] = ()
        problem = ""
        try:
            found = await read(name, self._rights_of(request))
        except Problem as error:
            problem = str(error)
        except KubeError as error:
            problem = f"this cannot be read: {type(error).__name__}"
        return await self._rendered(request, template, found=found, problem=problem)

    async def _cluster(self, request: Request, template: str) -> Response:
        name = request.path_params["name"]
        kyma = self._clusters.kyma(name)
        if kyma is None:
            return await self._missing(request, f"Kyma {name} in this control plane")
        live = f"{urlencode({'kyma': name})}&shown={self._revision(name)}"  # of this Kyma: others come while it is read
        may_list = self._rights_of(request)
        try:
            events, problem = await self._clusters.events(name, may_list), ""
        except KubeError as error:
            events, problem = (), f"Events cannot be read: {type(error).__name__}"
        return await self._rendered(
            request,
            template,
            live=live,
            kyma=kyma,
            region=kyma.metadata.labels.get(names.REGION, ""),
            why=await self._clusters.explain(kyma, may_list),
            modules=modules_of(kyma),
            since=find(kyma.status.conditions, "Ready"),
            conditions=conditions_of(kyma),
            events=events,
            problem=problem,
        )

    async def _releases(self, request: Request) -> Sequence[ModuleReleaseMeta] | None:
        """Return what is released; None where the user may not list it."""
        may_list = self._rights_of(request)
        return (
            tuple(self._clusters.releases.list()) if await may_list(DATED_RELEASE_METAS, names.KCP_NAMESPACE) else None
        )

    def _live_reload(self) -> str:
        return f"only=reload&shown={self._live.version}"

    def _rights_of(self, request: Request) -> MayList:
        return partial(self._access.may_list, self.signing_in.token_of(request))

    def _is_full(self, user: str) -> bool:
        return self._open[user] >= MAX_OF_ONE_USER or self._open.total() >= MAX_PAGES

    async def _while_allowed(
        self, request: Request, user: str, token: str, stream: AsyncGenerator[str, None]
    ) -> AsyncIterator[str]:
        """Pass a stream on while its user is signed in and may see the page; it ends where nobody can be asked.

        It also ends with the server, which otherwise waits for it, and then fails it.
        """
        is_stopping = getattr(request.state, "is_stopping", lambda: False)
        if self._is_full(user):  # by requests that were answered meanwhile
            return
        self._open[user] += 1
        try:
            async with aclosing(stream):
                async for text in stream:
                    is_signed_in = self.signing_in.token_of(request) == token
                    if not is_signed_in or await self._access.of(token) is not AccessDecision.ALLOWED:
                        yield event("signed-out", "")
                        return
                    yield text
                    if is_stopping():
                        return
        except KubeError:
            return
        finally:
            self._open[user] -= 1
            self._open += Counter()  # without those who have none

    def _revision(self, name: str) -> str:
        return hashlib.blake2b(repr(self._clusters.revision(name)).encode(), digest_size=8).hexdigest()

    async def _missing(self, request: Request, what: str) -> Response:
        answer = await self._rendered(request, "not-found.html", 404, what=what)
        answer.headers["HX-Refresh"] = "true"  # what a page asks for is gone: it would show the old state for ever
        return answer

    async def _rendered(self, request: Request, template: str, status: int = 200, **context: Any) -> Response:
        """Render outside of the event loop: the page of a large fleet takes a while."""
        user = await self._access.user_of(self.signing_in.token_of(request))
        return await asyncio.to_thread(self._html, template, status, user=user, **context)

    def _html(self, template: str, status: int, **context: Any) -> Response:
        text = self.templates.get_template(template).render(**context, now=datetime.now(UTC), grouped=grouped)
        return HTMLResponse(text, status)
