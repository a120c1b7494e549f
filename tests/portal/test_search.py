"""Search: nodes and people for everyone, workloads and requests as far as one may see them, in a few queries."""

from __future__ import annotations

import pytest
from django.utils import timezone

from budgets.models import Request
from budgets.queries import today
from budgets.services import tree
from scheduler.models import Workload
from tests.portal.test_pages import queries_of, text_of


def asked(calm, **more) -> Request:
    """Ada asks for more of A for A1."""
    said = {
        "node": calm.node["A1"], "parent": calm.node["A"], "cluster": calm.cluster, "author": calm.ada,
        "more_basis_points": 500, "starts_on": today(), "why": "wind tunnel", "otherwise": "late",
        "state": "submitted", "submitted_at": timezone.now(), "desk": calm.node["A"], **more,
    }  # fmt: skip
    return Request.objects.create(**said)


def found(client, find: str, **more) -> str:
    """What the page says."""
    return text_of(client.get("/search/", {"find": find, **more}))


def test_nodes_by_code_and_by_any_part_of_their_name(calm, as_person):
    client = as_person(calm.nil)
    assert "A1 Team A1 project in A Team A" in found(client, "eam a1")
    assert "Team B" in found(client, "b1")
    tree.rename(node=calm.node["A2"], name="100%_sure", by=None)
    assert "100%_sure" in found(client, "0%_s")
    assert "Nothing that you may see" in found(client, "0%xs")


def test_people_are_for_everyone_but_who_cannot_sign_in(calm, as_person):
    client = as_person(calm.nil)
    assert "Mia" in found(client, "mia")
    calm.mia.is_active = False
    calm.mia.save()
    assert "Nothing that you may see" in found(client, "mia")


def test_workloads_by_the_beginning_of_their_id_names_inside_only(lab, as_person):
    code = lab.waits.code
    for person in (lab.nil, lab.ada):
        assert code in found(as_person(person), code)
        assert code in found(as_person(person), code.lower()[:4])
    assert code in found(as_person(lab.ada), "WAITING-o")
    assert "waiting-one" in found(as_person(lab.ada), code)
    assert "waiting-one" not in found(as_person(lab.nil), code)
    assert "Nothing that you may see" in found(as_person(lab.nil), "waiting-o")


@pytest.mark.parametrize(("who", "sees"), [("ada", True), ("mia", True), ("max", True), ("ben", False), ("nil", False)])
def test_requests_are_for_those_who_may_see_them(calm, as_person, who, sees):
    row = asked(calm)
    client = as_person(getattr(calm, who))
    for find in (f"R{row.pk}", f"r{row.pk}", "wind tun"):
        page = client.get("/search/", {"find": find}).content.decode()
        assert (f'href="/requests/{row.pk}/"' in page) == sees


def test_a_draft_is_its_authors_alone(calm, as_person):
    row = asked(calm, state="draft", submitted_at=None)
    assert f"R{row.pk}" in found(as_person(calm.ada), "wind tunnel")
    assert "Nothing that you may see" in found(as_person(calm.mia), "wind tunnel")


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 200), ("find=a", 200), ("find=" + "x" * 81, 400), ("find=%00ab", 400), ("find=ab&kind=odd", 400),
     ("find=ab&kind=nodes&page=x", 400), ("find=ab&kind=nodes&page=9", 200), ("find=%25%25", 200),
     ("find=%5C%5C", 200)],
)  # fmt: skip
def test_what_may_be_typed(calm, as_person, query, status):
    assert as_person(calm.ada).get(f"/search/?{query}").status_code == status


def test_the_box_is_on_every_page_and_leads_here(calm, as_person):
    page = as_person(calm.ada).get("/tree/").content.decode()
    assert '<form class="find" method="get" action="/search/"' in page


def test_a_few_queries_however_many_hits(lab, as_person):
    client = as_person(lab.ada)
    found(client, "A1-")
    few = queries_of(client, "/search/?find=A1-")
    template = Workload.objects.get(pk=lab.waits.pk)
    for number in range(70):
        template.pk, template.code = None, f"A1-{5000 + number}"
        template.save(force_insert=True)
    assert queries_of(client, "/search/?find=A1-") == few <= 20
    said = found(client, "A1-", kind="workloads", page=2)
    assert "Page 2 of 2" in said
