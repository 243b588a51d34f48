"""The whole product on real API servers, which these tests share."""
