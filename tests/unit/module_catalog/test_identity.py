"""Which version of which module a template is, and those that contradict themselves: nobody gets them."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Change, ObjectKey
from lifecycle_manager import module_catalog
from lifecycle_manager.contract.resources import MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.module_catalog.identity import component_in, disagreement, module_of, version_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.templates import CONSISTENT, component_changed
from lifecycle_manager.module_catalog.validation import release_warnings, template_error
from lifecycle_manager.module_catalog.verification import ComponentRegistry
from lifecycle_manager_api import Condition, ModuleReleaseMeta, ModuleTemplate, find, names
from tests import builders
from tests.registries import no_link
from tests.world import KCP, World

NOTHING = Offer.of((), ())
MODULES, VERSIONS = ("api", "nats"), ("1.0.0", "2.0.0")


def template(
    name: str, *, module: str = "", version: str = "", label: str = "", of: str = "", **spec: Any
) -> ModuleTemplate:
    """Return a template that says nothing of itself but this; `of` is the component, such as api:1.0.0."""
    component, _, number = of.partition(":")
    content = builders.descriptor(component, number) if of else {}
    document = {
        "metadata": {"name": name, "namespace": "kcp-system", "labels": {names.MODULE_NAME: label} if label else {}},
        "spec": {"moduleName": module, "version": version, "descriptor": content, **spec},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleTemplate)


AGREEING = {
    "module and version": template("api-1.0.0", module="api", version="1.0.0", of="api:1.0.0"),
    "with its label": template("api-1.0.0", module="api", version="1.0.0", label="api", of="api:1.0.0"),
    "descriptor left out": template("api-1.0.0", module="api", version="1.0.0"),
    "module in the label": template("api-1.0.0", label="api", of="api:1.0.0"),
    "all in the name": template("api-1.0.0", of="api:1.0.0"),
    "name without a version": template("api-for-all", module="api", version="1.0.0", of="api:1.0.0", mandatory=True),
    "named after a channel": template("api-fast", label="api", channel="fast", of="api:1.0.0"),
    "former name of a channel": template("moduletemplate-api-fast", label="api", channel="fast", of="api:1.0.0"),
    "pre-release": template("api-1.0.0-rc1", module="api", version="1.0.0-rc1", of="api:1.0.0-rc1"),
    "component named otherwise": template("api-1.0.0", module="api", version="1.0.0", of="api-gateway:1.0.0"),
    "no module": template("for-everybody", of="api:1.0.0"),
}
DISAGREEING = {
    "name of another module": template("api-1.0.0", module="nats", version="1.0.0", of="api:1.0.0"),
    "label of another module": template("api-1.0.0", label="nats", of="api:1.0.0"),
    "label and spec differ": template("api-1.0.0", module="api", version="1.0.0", label="nats", of="api:1.0.0"),
    "label and spec differ beside a channel": template(
        "any", module="nats", label="api", channel="fast", of="api:1.0.0"
    ),
    "name of another version": template("api-2.0.0", module="api", version="1.0.0", of="api:1.0.0"),
    "rollback by the name": template("api-2.0.0", module="api", of="api:1.0.0"),
    "rollback by the name and the label": template("api-2.0.0", label="api", of="api:1.0.0"),
    "rollback by the version": template("api-2.0.0", module="api", version="2.0.0", of="api:1.0.0"),
    "rollback beside a channel": template("any", module="api", version="2.0.0", channel="fast", of="api:1.0.0"),
}


def why(item: ModuleTemplate, release: ModuleReleaseMeta | None = None) -> str:
    return disagreement(item, component_in(item), release)


@pytest.mark.parametrize("item", AGREEING.values(), ids=AGREEING)
def test_forms_that_the_lifecycle_manager_in_go_knows_agree(item: ModuleTemplate) -> None:
    assert why(item) == ""
    assert item.metadata.name in Offer.of([item], []).templates


@pytest.mark.parametrize("item", DISAGREEING.values(), ids=DISAGREEING)
def test_template_that_contradicts_itself_is_offered_to_nobody_and_refused(item: ModuleTemplate) -> None:
    problem = why(item)
    releases = [builders.release(module, regular="1.0.0", fast="2.0.0") for module in MODULES]
    for released in ([], releases):
        offer = Offer.of([item], released)
        assert (offer.templates, offer.by_channel, offer.mandatory) == ({}, {}, {})
        for module in MODULES:
            for version in VERSIONS:
                assert offer.template(module, version) is offer.installed(module, version) is None
        assert offer.disagreeing[item.metadata.name].why == problem
    assert problem in (template_error(item, NOTHING) or "")


def test_component_has_to_be_the_one_that_the_release_names() -> None:
    item = AGREEING["module and version"]
    same, other = (
        builders.release("api", regular="1.0.0", spec={"ocmComponentName": f"kyma-project.io/module/{each}"})
        for each in ("api", "nats")
    )
    assert why(item, same) == ""
    assert "the ocmComponentName of api is 'kyma-project.io/module/nats'" in why(item, other)
    assert Offer.of([item], [other]).template("api", "1.0.0") is None
    assert "ocmComponentName" in (template_error(item, Offer.of([], [other])) or "")


def test_release_of_a_contradictory_template_says_why_it_has_none() -> None:
    item = DISAGREEING["rollback by the version"]
    release = builders.release("api", regular="2.0.0")
    (warning,) = release_warnings(release, Offer.of([item], [release]))
    assert warning.startswith("ModuleTemplate api-2.0.0 is not offered: spec.version is 2.0.0, but the component")


def said(values: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(("", *values))


@given(
    st.lists(
        st.builds(
            template,
            name=st.builds("{}-{}".format, st.sampled_from(MODULES), st.sampled_from((*VERSIONS, "fast", "all"))),
            module=said(MODULES),
            version=said(VERSIONS),
            label=said(MODULES),
            of=said(tuple(f"{module}:{version}" for module in MODULES for version in VERSIONS)),
            channel=said(("fast",)),
            mandatory=st.booleans(),
        ),
        max_size=4,
        unique_by=lambda each: each.metadata.name,
    ),
    st.booleans(),
)
def test_whatever_is_found_for_a_module_and_version_is_of_both(items: list[ModuleTemplate], are_released: bool) -> None:
    releases = [builders.release(each, regular="1.0.0", fast="2.0.0") for each in MODULES] if are_released else []
    offer = Offer.of(items, releases)
    found: Mapping[Any, ModuleTemplate | None] = {
        (module, version): each
        for module in MODULES
        for version in VERSIONS
        for each in (offer.named(module, version), offer.template(module, version), offer.installed(module, version))
    }
    for (module, version), each in found.items():
        if each is not None:
            assert (module_of(each), version_of(each)) == (module, version)
            component = component_in(each)
            assert component is None or component.version == version
    for module, each in (*offer.mandatory.items(), *((of, each) for (of, _), each in offer.by_channel.items())):
        assert module_of(each) == module


async def test_template_that_contradicts_itself_says_so_until_it_is_corrected(world: World) -> None:
    module_catalog.setup(world.manager, cast("ComponentRegistry", None), no_link)
    item = builders.template("api", "1.0.0", name="nats-1.0.0")
    await world.offer(item)
    await world.sync_caches()

    async def condition() -> Condition | None:
        await world.turn("module-template", ObjectKey(KCP, "nats-1.0.0"))
        found = await world.kcp.get(MODULE_TEMPLATES, "nats-1.0.0", KCP)
        return find(found.status.conditions, CONSISTENT)

    found = await condition()
    assert found is not None
    assert (found.status, found.reason) == ("False", "Contradictory")
    assert "metadata.name is that of module 'nats', and spec.moduleName is 'api'" in found.message
    await world.offer(builders.template("nats", "1.0.0"))
    await world.sync_caches()
    assert await condition() is None


def test_release_that_names_another_component_has_its_templates_compared_again() -> None:
    plain, named = (
        msgspec.convert(msgspec.to_builtins(builders.release("api", spec=spec)), DatedReleaseMeta)
        for spec in ({}, {"ocmComponentName": "kyma-project.io/module/api"})
    )
    assert component_changed(Change(None, named))
    assert component_changed(Change(named, plain))
    assert component_changed(Change(named, None))
    assert not component_changed(Change(None, plain))
    assert not component_changed(Change(named, named))


def test_mandatory_module_whose_template_contradicts_itself_stays_installed() -> None:
    item = DISAGREEING["rollback by the version"]
    mandatory = msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, mandatory=True))
    offer = Offer.of([mandatory], [])
    assert offer.mandatory == {}
    assert offer.required == {"api"}
    leaving = msgspec.structs.replace(mandatory.metadata, deletion_timestamp="2026-11-01T12:00:00Z")
    assert not Offer.of([msgspec.structs.replace(mandatory, metadata=leaving)], []).required
    release = builders.release("api", mandatory="2.0.0")
    assert Offer.of([item], [release]).awaited == {"api"}
