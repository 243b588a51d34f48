"""Decoding and encoding objects, without losing or adding fields."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lifecycle_manager_api import (
    Kyma,
    KymaModule,
    KymaSpec,
    ModuleTemplate,
    NotDecodable,
    ObjectMeta,
    as_document,
    decode,
    decode_list,
    encode,
)

KYMA: dict[str, Any] = {
    "apiVersion": "operator.kyma-project.io/v1beta2",
    "kind": "Kyma",
    "metadata": {
        "name": "demo",
        "labels": {"a": "b"},
        "managedFields": [{"manager": "kubectl"}],
        "creationTimestamp": "2026-11-01T12:00:00Z",
    },
    "spec": {
        "channel": "regular",
        "futureSetting": {"deep": [1, 2]},
        "modules": [
            {"name": "telemetry", "managed": True, "futureFlag": True},
            {"name": "serverless", "channel": "fast", "futureFlag": False},
        ],
    },
    "status": {"state": "Ready", "futureStatus": 7},
}
BODY = json.dumps(KYMA).encode()


def test_unknown_fields_are_ignored() -> None:
    kyma = decode(Kyma, BODY)

    assert kyma.spec.modules == (KymaModule(name="telemetry"), KymaModule(name="serverless", channel="fast"))
    assert kyma.metadata.creation_timestamp == datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_field_of_the_wrong_type_is_named() -> None:
    body = json.dumps(KYMA | {"spec": {"channel": "regular", "modules": [{"name": 7}]}})

    with pytest.raises(
        NotDecodable, match=r"invalid Kyma: Expected `str`, got `int` - at `\$\.spec\.modules\[0\]\.name`"
    ):
        decode(Kyma, body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"kind": "Kyma"}'])
def test_invalid_object_is_rejected(body: bytes) -> None:
    with pytest.raises(NotDecodable):
        decode(Kyma, body)


def test_null_in_metadata_counts_as_missing() -> None:
    metadata = KYMA["metadata"] | {"annotations": None, "creationTimestamp": None, "finalizers": None}

    kyma = decode(Kyma, json.dumps(KYMA | {"metadata": metadata}))

    assert (kyma.metadata.annotations, kyma.metadata.finalizers) == ({}, ())
    assert kyma.spec == decode(Kyma, BODY).spec
    template = {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "ModuleTemplate",
        "metadata": {"labels": None},
        "spec": {"descriptor": {"kept": None}},
    }
    assert bytes(decode(ModuleTemplate, json.dumps(template)).spec.descriptor) == b'{"kept":null}'


def test_object_of_another_kind_is_rejected() -> None:
    body = json.dumps(KYMA | {"kind": "Karma"})

    with pytest.raises(NotDecodable, match="Karma is not a Kyma"):
        decode(Kyma, body)


def test_object_of_an_older_version_is_read() -> None:
    body = json.dumps(KYMA | {"apiVersion": "operator.kyma-project.io/v1beta1"})

    assert decode(Kyma, body).spec == decode(Kyma, BODY).spec


def test_list_is_decoded_with_its_resource_version() -> None:
    listed = {"metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 3}, "items": [KYMA, KYMA]}

    page = decode_list(Kyma, json.dumps(listed))

    assert page.metadata.resource_version == "7"
    assert (page.metadata.continue_, page.metadata.remaining_item_count) == ("next", 3)
    assert page.items == (decode(Kyma, BODY), decode(Kyma, BODY))


def test_list_with_an_invalid_object_is_rejected() -> None:
    with pytest.raises(NotDecodable, match="invalid list of kymas"):
        decode_list(Kyma, b'{"items": [{"spec": 7}]}')


def test_document_to_apply_has_only_set_fields() -> None:
    kyma = Kyma(metadata=ObjectMeta(name="demo"), spec=KymaSpec(channel="regular", modules=(KymaModule(name="a"),)))

    assert as_document(kyma) == {
        "apiVersion": "operator.kyma-project.io/v1beta2",
        "kind": "Kyma",
        "metadata": {"name": "demo"},
        "spec": {"channel": "regular", "modules": [{"name": "a"}]},
    }
    assert decode(Kyma, encode(kyma)) == kyma
