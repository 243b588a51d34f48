"""The login for a registry, from the docker config in a Secret."""

import base64
from typing import Any

import msgspec
import pytest

from kyma_oci import CredentialsInvalid, DockerConfig, Login, config_in_secret, login_in


def config(content: Any) -> DockerConfig:
    data = {".dockerconfigjson": base64.b64encode(msgspec.json.encode(content)).decode()} if content else {}
    return config_in_secret(data, "kcp-system/pull")


def test_login_is_that_of_the_registry_in_either_form() -> None:
    entry = {"auth": base64.b64encode(b"me:se:cret").decode()}
    encoded = config({"auths": {"other.example.com": {"username": "x"}, "https://r.example.com/v1/": entry}})
    assert login_in([encoded], "r.example.com") == Login("me", "se:cret")
    named = config({"auths": {"r.example.com": {"username": "you", "password": "p"}}})
    assert login_in([named], "r.example.com") == Login("you", "p")
    assert login_in([named], "elsewhere.example.com") is None


@pytest.mark.parametrize("encoded", [base64.encodebytes, lambda login: base64.b64encode(login).rstrip(b"=")])
def test_login_in_several_lines_or_without_padding_is_read_as_the_kubelet_reads_it(encoded: Any) -> None:
    login = b"_json_key:" + b"{}" * 50
    entry = {"auth": encoded(login).decode()}
    assert entry["auth"] != base64.b64encode(login).decode()
    assert login_in([config({"auths": {"r.example.com": entry}})], "r.example.com") == Login("_json_key", "{}" * 50)


def test_first_of_several_configs_counts_and_one_without_a_login_is_passed_over() -> None:
    empty, first, second = (
        config({"auths": {"r.example.com": entry}})
        for entry in ({}, {"username": "first"}, {"username": "second", "password": "p"})
    )
    assert login_in([empty, first, second], "r.example.com/modules") == Login("first", "")


def test_pattern_of_hosts_is_that_of_the_kubelet_and_counts_last() -> None:
    patterns = config({"auths": {"*.example.com": {"username": "any"}, "*.example.com:5000/team": {"username": "t"}}})
    assert login_in([patterns], "r.example.com/modules") == Login("any", "")
    assert login_in([patterns], "r.example.com:5000/team/a") == Login("t", "")
    for other in ("a.r.example.com", "example.com", "r.example.com:5000/other", "r.example.com.evil.org"):
        assert login_in([patterns], other) is None
    named = config({"auths": {"r.example.com": {"username": "named"}}})
    assert login_in([patterns, named], "r.example.com/modules") == Login("named", "")


@pytest.mark.parametrize("content", [None, [], *({"auths": {"r.example.com": {"auth": each}}} for each in "!ä")])
def test_secret_without_credentials_is_reported(content: Any) -> None:
    with pytest.raises(CredentialsInvalid, match="kcp-system/pull"):
        login_in([config(content)], "r.example.com")


def test_representations_show_no_password() -> None:
    assert "secret" not in repr(Login("you", "secret"))
    assert "secret" not in repr(config({"auths": {"r.example.com": {"username": "you", "password": "secret"}}}))
