"""A gateway in front of an API server that answers with a page of its own."""

from contextlib import suppress
from itertools import product

from kube_runtime import KubeError
from lifecycle_manager.contract.signals import ReadScope
from tests.unit.module_config.test_controller import MODULE, changed, module
from tests.unit.module_installation.test_absence import Page

NGINX = b"<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1><hr>nginx</body></html>"


async def test_module_configs_stay_while_every_answer_is_404() -> None:
    """Also while it is the text of API servers: that says nothing of objects, and is what other Go servers say, too."""
    pages = (NGINX, b"404 page not found\n", b'{"code":404,"message":"no such route"}')
    async with module() as it:
        await it.world.choose(MODULE)
        await it.world.reconcile(times=2)
        await it.write("precious")
        await it.reconcile(ReadScope.EVERYTHING)
        before = await it.config()
        assert before is not None
        for page, cause, is_new_client in product(pages, (ReadScope.EVERYTHING, changed()), (True, False)):
            it.world.cluster("demo").add_rule(portal := Page(page))
            if is_new_client:
                await it.world.connections.close()
            with suppress(KubeError):  # retried
                await it.reconcile(cause)
            it.world.cluster("demo").remove_rule(portal)
            after = await it.config()
            assert after is not None
            assert (after.metadata.uid, after.metadata.being_deleted) == (before.metadata.uid, False)
            await it.reconcile(cause)
            assert "precious" in await it.text()
