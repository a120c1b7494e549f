"""Cells on pages and over the API: what a node has of its own, what is left, what is short, and who may say so."""

from __future__ import annotations

from budgets.models import BudgetNode
from portal.ledger_words import Diff, cell_diffs
from portal.private_nodes import grantable_words, names_of
from scheduler.engine import CellCounts, layout_of
from scheduler.engine import Node as Host
from scheduler.models import Node
from scheduler.queries.cells import chosen
from scheduler.services import cells, nodes
from tests.portal.governing import API, done, fields, get, send
from tests.portal.pages_in_words import words_of

ADDRESS, PAGE = "/clusters/north/cells/A/", "/budget/A/cells/?cluster=north"
GIVEN = {"cells": {"node": 1}, "reason": "as agreed"}


def said(answer) -> str:
    """All words of a page."""
    return " ".join(" ".join(words_of(answer.content.decode()).said).split())


def give(calm, code: str, number: int = 0, racks: int = 0) -> None:
    """Let a node have so many whole nodes and racks."""
    wanted = CellCounts(number, racks)
    cells.set_cells(node=calm.node[code], cluster=calm.cluster, cells=wanted, by=None, reason="as agreed")


def test_cells_are_put_from_what_was_read_and_withdrawn(calm, as_person):
    top = as_person(calm.max)
    assert fields(send(top, "put", ADDRESS, GIVEN), 428) == []
    found = done(send(top, "put", ADDRESS, GIVEN, If_Match="*"))
    assert (found["cells"], found["nodes"], found["devices_milli"]) == ({"node": 1, "rack": 0}, 1, 8_000)
    assert (found["grantable"], found["short"]) == ({"node": 1, "rack": 0}, {"node": 0, "rack": 0})
    assert (found["decided_by"], found["in_use"], found["is_over_entitlement"]) == ("max", [], False)
    assert get(top, "/clusters/north/cells/") == [{"node": "A", "cells": {"node": 1, "rack": 0}}]
    stale = f'"{BudgetNode.objects.get(code="LAB").version - 1}"'
    assert fields(send(top, "put", ADDRESS, GIVEN | {"cells": {"node": 2}}, If_Match=stale), 412) == []
    gone = top.delete(f"{API}{ADDRESS}?reason=over", headers={"If-Match": "*"})
    assert (gone.status_code, get(top, "/clusters/north/cells/")) == (204, [])


def test_what_cannot_be_is_refused_by_the_field(calm, as_person):
    top = as_person(calm.max)
    for given, code, field in (
        ({"node": 3}, 400, "cells.node"),
        ({"rack": 2}, 400, "cells.rack"),
        ({"node": -1}, 400, "cells.node"),
        ({"node": "x"}, 400, "cells.node"),
        ({"switch": 1}, 400, "cells.switch"),
    ):
        assert fields(send(top, "put", ADDRESS, {"cells": given, "reason": "x"}, If_Match="*"), code) == [field], given
    assert fields(send(as_person(calm.mia), "put", ADDRESS, GIVEN, If_Match="*"), 403) == []
    assert get(top, "/clusters/north/cells/") == []


def test_the_page_sets_them_once_and_says_what_is_short_beside_the_field(calm, as_person):
    top = as_person(calm.max)
    page = top.get(PAGE)
    assert "A has no whole nodes or racks of north to itself." in said(page)
    assert "up to 2 whole nodes, or 1 rack" in said(page)
    form = page.context["form"]
    typed = {"action": form["action"].value(), "version": form["version"].value(), "reason": "as agreed"}
    wrong = top.post(PAGE, typed | {"nodes": "1", "racks": "1"})
    assert (wrong.status_code, "north: 1 whole node short of what A would have" in said(wrong)) == (400, True)
    right = typed | {"nodes": "2", "racks": "0"}
    assert top.post(PAGE, right).status_code == 302
    assert top.post(PAGE, right).status_code == 302, "the same form again does nothing"
    assert cells.on(calm.cluster) == {calm.node["A"].pk: {"node": 2}}
    page = said(top.get(PAGE))
    assert "Beside its share, A has 2 whole nodes of north to itself" in page
    assert "These cells come to 16 GPUs, and the share to 9.6 GPUs" in page
    late = top.post(PAGE, right | {"action": "0" * 32, "nodes": "1"})
    assert (late.status_code, cells.on(calm.cluster)) == (409, {calm.node["A"].pk: {"node": 2}})
    reader = as_person(calm.ben)
    assert 'name="nodes"' not in reader.get(PAGE).content.decode()
    assert reader.post(PAGE, right).status_code == 403


def test_pages_show_cells_where_shares_and_nodes_are(lab, as_person):
    give(lab, "A", 1)
    reader = as_person(lab.ben)
    budget = said(reader.get("/budget/A/?cluster=north"))
    assert "Private nodes" in budget
    assert "1 of 1" in budget
    assert "“as agreed”" in budget
    assert "+ 1 whole node" in said(reader.get("/tree/north/"))
    hosts = said(reader.get("/nodes/north/"))
    assert "come to 1 of 2 nodes: A 1 whole node." in hosts
    assert "cell of A" in hosts
    assert [row["cell_of"] for row in get(reader, "/clusters/north/nodes/")["results"]].count("A") == 1, (
        "A1 runs on both, and one is its cell"
    )
    assert "is for all below it" not in said(reader.get("/budget/A1/cells/?cluster=north"))
    assert "those of A are for all below it" in said(reader.get("/budget/A1/cells/?cluster=north"))
    assert "The organisation has the whole cluster." in said(reader.get("/budget/LAB/cells/?cluster=north"))


def test_nodes_that_went_are_told_where_cells_and_nodes_are(calm, as_person):
    give(calm, "A", 2)
    reader = as_person(calm.ben)
    Node.objects.filter(name="n02").update(health="down")
    assert "north: 1 whole node of what is granted to A can't be had today: nodes are unfit" in said(reader.get(PAGE))
    Node.objects.filter(name="n02").update(retired_at=calm.now)
    for page in ("/budget/A/?cluster=north", PAGE, "/nodes/north/"):
        assert "north: 1 whole node short of what is granted to A. Nothing is withdrawn" in said(reader.get(page)), page
    nodes.register(cluster=calm.cluster, name="n03", devices=8, rack="r1")
    assert "short of" not in said(reader.get(PAGE))


def test_racks_are_bound_before_nodes_and_no_more_than_there_are_cells():
    layout = layout_of(Host(f"r{rack}-{each}", 8_000, rack=f"r{rack}") for rack in range(3) for each in range(2))
    used = ["r0-1", "r1-0", "r1-1", "r2-0", "gone"]
    assert chosen(used, CellCounts(1, 1), layout) == ["r1-0", "r1-1", "r0-1"]
    assert chosen(used, CellCounts(1, 2), layout) == ["r1-0", "r1-1", "r0-1", "r2-0"]
    assert chosen(used, CellCounts(9, 0), layout) == ["r0-1", "r1-0", "r1-1", "r2-0"]
    assert chosen([], CellCounts(1, 1), layout) == []


def test_the_ledger_and_lists_in_words():
    before, after = {"node": 0, "rack": 1}, {"node": 2, "rack": 1}
    assert cell_diffs(before, after) == [Diff("Whole nodes", "0", "2")]
    assert grantable_words(CellCounts(8, 2)) == "up to 8 whole nodes, or 2 racks"
    assert (grantable_words(CellCounts(1, 0)), grantable_words(CellCounts())) == ("up to 1 whole node", "nothing")
    assert names_of([f"n{number}" for number in range(10)]) == "n0, n1, n2, n3, n4, n5, n6 and 3 more"
