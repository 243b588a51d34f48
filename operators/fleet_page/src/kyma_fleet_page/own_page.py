"""The fleet page of one operator: served by `klm ui` from their own machine, with the rights of their kubeconfig.

The page of a replica would need a port-forward, and a token that is pasted. Here the API server is asked as for any
command, nobody else's rights are used, and the key of the page is known to this process and the browser alone.
"""

import asyncio
import secrets
import sys
import webbrowser
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from http_guard import server_for
from kube_runtime import AddressUnusable, Client, Manager, ManagerOptions, Resource
from kyma_fleet.control_plane import require_control_plane
from kyma_fleet.problems import ROLES, Problem
from kyma_fleet.reviews import missing_rights, who
from kyma_fleet.screen import say
from kyma_fleet_page.access import AccessDecision
from kyma_fleet_page.serving import BOUNDS, LOOPBACK, page_of
from kyma_fleet_page.signing_in import ONCE, SignIn
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
)
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.endpoints import PageSettings
from lifecycle_manager_api import names

WATCHED: tuple[Resource[Any], ...] = (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    SYNC_RESOURCES,
)
"""What a page is made of. Who may not watch one of these gets no page, so nothing else has to be hidden but Events."""


@dataclass(eq=False)
class OwnAccess:
    """Lets in who has the key of this process; requests are made with the rights of the kubeconfig."""

    client: Client
    user: str
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def of(self, token: str) -> AccessDecision:
        """Return whether the page is shown."""
        is_known = secrets.compare_digest(token.encode(), self.key.encode())
        return AccessDecision.ALLOWED if is_known else AccessDecision.UNKNOWN

    async def user_of(self, _: str) -> str:
        """Return the name of the one user."""
        return self.user

    async def may_list(self, token: str, resource: Resource[Any], namespace: str) -> bool:
        """Tell whether a kind is shown: what is watched, and what the API server says of anything else."""
        if await self.of(token) is not AccessDecision.ALLOWED:
            return False
        watched = any((each.group, each.plural) == (resource.group, resource.plural) for each in WATCHED)
        return watched or not await missing_rights(self.client, (("list", resource.group, resource.plural),))


@dataclass(eq=False)
class OneTimeLink:
    """An address that signs in once: a browser keeps it in its history."""

    access: OwnAccess
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def use(self, sign_in: SignIn, request: Request) -> Response:
        """Start the session of the operator's browser."""
        given = request.query_params.get("key", "")
        if not self.key or not secrets.compare_digest(given.encode(), self.key.encode()):
            return sign_in.form(401, "the address of klm ui signs in once: end it with Ctrl-C, and start it again", "/")
        self.key = ""
        return await sign_in.start_session(request, self.access.key, "/")


def leading_to(address: str, folder: Path) -> Path:
    """Return a file that leads a browser to an address, which does not become a part of its command line.

    Everybody on this machine can read that; the file is in a folder that only its owner may enter.
    """
    file = folder / "fleet-page.html"
    file.touch(0o600)
    file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">\n')
    return file


async def serve(kcp: Client, port: int, *, open_browser: bool) -> int:
    """Serve the page until it is cancelled. Raises Problem, KubeError."""
    await require_control_plane(kcp)
    for each in WATCHED:
        await kcp.mapper.resource(each.api_version, each.kind)  # the first list of one that is not served never ends
    wanted = tuple((verb, each.group, each.plural) for each in WATCHED for verb in ("list", "watch"))
    if missing := await missing_rights(kcp, wanted):
        raise Problem(f"you may not {', '.join(missing[:3])}; {ROLES}")
    manager = Manager(kcp, ManagerOptions(name="klm-ui"), namespace=names.KCP_NAMESPACE)
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    access = OwnAccess(kcp, await who(kcp))
    link = OneTimeLink(access)
    app = page_of(manager, kcp, offers, PageSettings(), access, link.use)
    try:
        server = server_for(app, LOOPBACK[0], port, bounds=BOUNDS)
    except AddressUnusable as error:
        raise Problem(f"{error}; choose another with --port") from None
    address = f"http://{LOOPBACK[0]}:{server.port}{ONCE}?key={link.key}"

    async def serve_and_tell() -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        say("the fleet page is served until Ctrl-C; the address signs in once")
        with TemporaryDirectory(prefix="klm-ui-") as folder:
            if open_browser:
                address_of_file = leading_to(address, Path(folder)).as_uri()
                # A browser may stay in the foreground, waiting for the page: nothing here waits for it.
                Thread(target=webbrowser.open, args=(address_of_file,), daemon=True).start()
            await server.serve_until_cancelled()

    manager.serves(serve_and_tell, name="fleet page")
    await manager.run(asyncio.Event())
    return 0
