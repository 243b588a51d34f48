"""Names that Kyma has fixed and that do not follow the pattern of the others."""

from lifecycle_manager_api import names


def test_annotation_with_the_domain_of_an_skr_has_no_prefix() -> None:
    assert names.SKR_DOMAIN == "skr-domain"
