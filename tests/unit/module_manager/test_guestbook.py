"""The sample with two stages."""

from kube_runtime import load_yaml
from kyma_module_manager.samples import sample_file
from kyma_module_manager.samples.guestbook import objects
from kyma_module_manager.testing import RenderedObjects, render_module_cr, synced_object

EXAMPLE = sample_file("guestbook", "example.yaml").read_text()


def kinds(rendered: RenderedObjects) -> list[str]:
    return [each["kind"] for each in rendered.objects]


async def test_database_is_the_first_stage() -> None:
    assert kinds(await render_module_cr(objects, EXAMPLE)) == ["Service", "StatefulSet"]


async def test_application_is_not_returned_before_the_database_is_ready() -> None:
    database = synced_object("StatefulSet", "default-database", "kyma-system", group="apps", state="Processing")

    assert "Deployment" not in kinds(await render_module_cr(objects, EXAMPLE, synced=[database]))


async def test_application_is_returned_when_the_database_is_ready() -> None:
    database = synced_object("StatefulSet", "default-database", "kyma-system", group="apps")

    rendered = await render_module_cr(objects, EXAMPLE, synced=[database])

    assert rendered.one("Deployment", "default", "kyma-system")["spec"]["replicas"] == 3


async def test_application_stays_while_its_database_is_changed() -> None:
    ready = synced_object("StatefulSet", "default-database", "kyma-system", group="apps")
    busy = synced_object("StatefulSet", "default-database", "kyma-system", group="apps", state="Processing")
    started = await render_module_cr(objects, EXAMPLE, synced=[ready])

    rendered = await render_module_cr(
        objects, EXAMPLE.replace("replicas: 3", "replicas: 4"), synced=[busy], written=started.text
    )

    assert rendered.one("Deployment", "default", "kyma-system")["spec"]["replicas"] == 4


def test_template_and_crd_name_the_same_kind() -> None:
    crd = load_yaml(sample_file("guestbook", "crd.yaml").read_text())
    default = load_yaml(sample_file("guestbook", "module-template.yaml").read_text())["spec"]["data"]

    assert default["kind"] == crd["spec"]["names"]["kind"]
    assert default["apiVersion"] == f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
