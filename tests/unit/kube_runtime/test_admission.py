"""Reviews of objects and their answers, without an API server."""

import base64
import logging
import ssl
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_crds import CustomResource
from kube_runtime import Client, KubeconfigPolicy
from kube_runtime.admission.review import patch_between, review_of
from kube_runtime.admission.serving import WebhookServer
from kube_runtime.admission.webhooks import Webhook
from kube_runtime.manager import Manager
from kube_runtime.operator import Operator, Review
from kube_runtime.resource import ObjectKey
from kube_simulation import Simulation
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

JSON: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(alphabet="a/~b", min_size=1, max_size=3),
    st.recursive(
        st.none() | st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2),
        lambda children: st.dictionaries(st.text(alphabet="a/~b", min_size=1, max_size=3), children, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def patched(document: dict[str, Any], patch: list[Any]) -> dict[str, Any]:
    """Apply a patch as RFC 6902 says, to mappings."""
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    for step in patch:
        *above, name = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = result
        for part in above:
            place = place[part]
        if step["op"] == "remove":
            del place[name]
        else:
            place[name] = step["value"]
    return result


@given(JSON, JSON)
def test_patch_leads_from_one_object_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert patched(before, list(patch_between(before, after))) == after


async def test_object_is_given_to_the_function_as_its_type_and_errors_say_nothing_of_it() -> None:
    def check(item: Any, review: Review[Any]) -> str | None:
        if item["data"]["a"] == "raise":
            raise RuntimeError("a secret")
        assert (review.user, review.dry_run, review.old) == ("somebody", True, None)
        return f"no {item['data']['a']}"

    webhook = Webhook(resource=CONFIG_MAPS, function=check, mutates=False, operations=["CREATE"])

    async def message(value: Any) -> str:
        request = {
            "uid": "1",
            "operation": "CREATE",
            "object": value,
            "dryRun": True,
            "userInfo": {"username": "somebody"},
        }
        response = msgspec.json.decode(await webhook.respond(review_of(msgspec.json.encode({"request": request}))))
        assert response["response"]["allowed"] is False
        return str(response["response"]["status"]["message"])

    assert await message({"data": {"a": "b"}}) == "no b"
    assert await message({"data": {"a": "raise"}}) == "the operator failed at this ConfigMap; its log says why"
    assert (await message([])).startswith("the ConfigMap can't be read: Expected `object | null`")
    assert await message(None) == "the review has no object"


async def test_replicas_behind_a_service_share_one_ca(simulation: Simulation) -> None:
    cluster = simulation.cluster("one")
    operator = Operator("sheets")

    @operator.validates(CONFIG_MAPS)
    def check(item: Any, review: Review[Any]) -> None: ...

    policy = KubeconfigPolicy(allow_insecure=True)
    trusted = []
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=policy) as client:
        for _ in range(2):
            manager = Manager(client)
            server = WebhookServer("sheets", operator.webhooks, ("127.0.0.1", 0), ObjectKey("default", "hooks"))
            server.setup(manager, None)
            async with manager.background():
                await manager.start()
                (configuration,) = [each.configuration("sheets", {}, None) for each in operator.webhooks]
                trusted.append(server.client_of(operator.webhooks[0]))
            await server.close()
    assert configuration["name"] == "sheets.configmaps.core"
    assert trusted[0] == trusted[1]
    assert trusted[0]["service"] == {
        "namespace": "default",
        "name": "hooks",
        "path": "/validate/configmaps",
        "port": 443,
    }
    ssl.create_default_context(cadata=base64.b64decode(trusted[0]["caBundle"]).decode())


def test_second_function_for_a_kind_is_refused() -> None:
    operator = Operator("sheets")

    @operator.validates(CONFIG_MAPS)
    def check(item: Any, review: Review[Any]) -> None: ...

    with pytest.raises(TypeError, match="has the function check already"):
        operator.validates(CONFIG_MAPS)(check)


class Sheet(CustomResource, frozen=True, kw_only=True):
    """A kind that webhooks alone are for."""

    GROUP: ClassVar[str] = "sheets.example.com"


async def test_kind_that_is_only_reviewed_has_a_crd_and_is_not_said_to_be_no_kind(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kube_runtime")
    operator = Operator("sheets")

    @operator.validates(Sheet)
    def check(item: Sheet, review: Review[Sheet]) -> None: ...

    @operator.mutates(Sheet)
    def fold(item: Sheet, review: Review[Sheet]) -> None: ...

    @operator.validates(CONFIG_MAPS)
    def other(item: Any, review: Review[Any]) -> None: ...

    assert operator.kinds == [Sheet]
    async with (
        await Client.from_kubeconfig(
            simulation.cluster("sheets").kubeconfig, policy=KubeconfigPolicy(allow_insecure=True)
        ) as client,
        operator.running(client),
    ):
        await eventually(lambda: "started" in caplog.text)
    assert "no kinds" not in caplog.text
