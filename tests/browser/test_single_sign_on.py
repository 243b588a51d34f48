"""Signing in with single sign-on: a real provider, a real API server that accepts its tokens, a real browser."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from http_guard import Bounds, server_for
from kube_runtime import Client
from kyma_fleet_page.access import Access
from kyma_fleet_page.app import create_app
from kyma_fleet_page.oidc import IdentityProvider
from kyma_local.certificates import create_local_ca, issue_for, write_key_pair
from kyma_local.clusters import LocalClusters
from kyma_local.ports import free_port
from kyma_local.starting import answers, start_server
from lifecycle_manager.options.endpoints import OidcSettings
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from lifecycle_manager_api import names
from tests.browser.conftest import Fleet
from tests.go_programs import build
from tests.page_sources import MadeUp

SECRET, PASSWORD = "the-secret-of-the-page", "verysecure"
MAY_LIST = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {names.KCP_NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: viewer}}
rules: [{{apiGroups: [{names.GROUP}], resources: [kymas], verbs: [list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: viewer}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: "oidc:id1"}}]
"""


@asynccontextmanager
async def identity_provider(folder: Path, redirect: str) -> AsyncIterator[OidcSettings]:
    """Run the provider until the block ends."""
    program = await asyncio.to_thread(build, Path(__file__).with_name("identity_provider"), folder / "provider")
    ca, port = create_local_ca(), free_port()
    certificate, key = write_key_pair(issue_for(ca, "identity-provider"), folder, "provider")
    (folder / "ca.crt").write_bytes(ca.certificate_pem)
    issuer = f"https://localhost:{port}"
    command = [
        str(program),
        f"--address=127.0.0.1:{port}",
        f"--issuer={issuer}",
        f"--redirect={redirect}",
        f"--secret={SECRET}",
        f"--certificate={certificate}",
        f"--key={key}",
    ]
    (folder / "secret").write_text(f"{SECRET}\n")
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    async with httpx.AsyncClient(verify=trust, trust_env=False) as client:
        described = f"{issuer}/.well-known/openid-configuration"
        child = await start_server("provider", command, folder / "log", lambda: answers(client, described))
    try:
        yield OidcSettings(
            issuer=issuer,
            client_id="fleet-page",
            client_secret_file=str(folder / "secret"),
            redirect_url=redirect,
            ca_file=str(folder / "ca.crt"),
            scopes=(),
        )
    finally:
        await child.stop()


@pytest_asyncio.fixture
async def page_address(tmp_path: Path) -> AsyncIterator[str]:
    """The page, beside an API server that accepts the provider's tokens."""
    port = free_port()
    address, fleet = f"http://localhost:{port}", Fleet()
    fleet.put("kyma-ready")
    fleet.put("kyma-broken", "Error", "no nodes")
    async with (
        identity_provider(tmp_path, f"{address}/sign-in/callback") as settings,
        LocalClusters.start(skrs=0, flags=accepting(settings)) as clusters,
        await Client.from_environment(clusters.kcp.admin_kubeconfig) as admin,
    ):
        await apply_objects(admin, MAY_LIST)
        await apply_crds(admin)
        provider = IdentityProvider.configured(settings)
        app = create_app(MadeUp(fleet.kymas), Access(admin, names.KCP_NAMESPACE), provider=provider)
        server = server_for(app, "127.0.0.1", port, bounds=Bounds(connections=100))
        serving = asyncio.create_task(server.serve())
        yield address
        server.should_exit = True
        await serving


def accepting(provider: OidcSettings) -> tuple[str, ...]:
    return (
        f"--oidc-issuer-url={provider.issuer}",
        f"--oidc-client-id={provider.client_id}",
        f"--oidc-ca-file={provider.ca_file}",
        "--oidc-username-claim=sub",
        "--oidc-username-prefix=oidc:",
    )


@pytest.mark.xdist_group("browser")
async def test_user_signs_in_at_the_identity_provider_and_sees_what_that_user_may(
    page_address: str, browser: Browser
) -> None:
    for user, may in (("test-user@localhost", True), ("test-user2", False)):
        context = await browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(20_000)
        page = await context.new_page()
        await page.goto(f"{page_address}/?state=Error")
        await page.get_by_role("link", name="Sign in with single sign-on").click()
        await page.locator("input[name=username]").fill(user)
        await page.locator("input[name=password]").fill(PASSWORD)
        await page.locator("button[type=submit], input[type=submit]").click()
        if may:
            await page.wait_for_url(f"{page_address}/?state=Error")
            await expect(page.locator(".worst")).to_contain_text("kyma-broken")
            await page.reload()
            await expect(page.locator(".worst")).to_contain_text("kyma-broken")
        else:
            await expect(page.get_by_role("alert").last).to_contain_text("this user may not list Kymas")
        await context.close()
