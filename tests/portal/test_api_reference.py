"""The API's description as pages: every operation, with what it takes and gives, without any script."""

from __future__ import annotations

from collections.abc import Callable

from portal.api.schema import described
from tests.portal.conftest import Laboratory


def test_every_operation_has_its_page(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.nil)
    whole = client.get("/help/api/").content.decode()
    keys = [each["operationId"] for methods in described()["paths"].values() for each in methods.values()]
    assert len(keys) > 100
    assert [key for key in keys if f'href="/help/api/{key}/"' not in whole] == []
    assert [key for key in keys if client.get(f"/help/api/{key}/").status_code != 200] == []
    assert client.get("/help/api/no-such/").status_code == 404


def test_a_page_says_what_is_taken_and_given(calm: Laboratory, as_person: Callable) -> None:
    page = as_person(calm.nil).get("/help/api/workloads_submit/").content.decode()
    for said in (
        "<code>size_milli</code>",
        "<code>inside.command</code>",
        "<code>Idempotency-Key</code>",
        "<code>422</code>",
    ):
        assert said in page
    assert "Tokens need the scope <code>submit</code>." in page
    assert "`" not in page
