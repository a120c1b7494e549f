"""Charts are plotly figures, bounded, and coloured by roles that the style sheet has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import plotly.graph_objects as go

from portal.run_line import drawings
from scheduler.queries.workload import explanation

CSS = Path(__file__).resolve().parents[2] / "static" / "css" / "allotment.css"


def check(figure) -> None:
    """It is what plotly takes, once its colours are resolved; each role is a colour of the style sheet."""
    text = json.dumps(figure)
    for role in set(re.findall(r"role:([a-z0-9-]+)", text)):
        assert f"--{role}:" in CSS.read_text(encoding="utf-8"), role
    go.Figure(json.loads(re.sub(r"role:[a-z0-9/-]+", "#123456", text)))
    assert len(text) < 300_000


def test_usage_against_entitlement_stacks_exactly(lab, as_person):
    client = as_person(lab.ada)
    for window in ("1d", "7d", "28d"):
        figure = client.get(f"/budget/B1/?window={window}").context["chart"]
        check(figure)
        within, short, borrowed = figure["data"][:3]
        assert short["base"] == within["y"]
        entitled = figure["data"][4]["y"][:-1]
        assert borrowed["base"] == entitled
        for delivered, missing, due in zip(within["y"], short["y"], entitled, strict=True):
            assert delivered + missing <= due + 0.002


def test_the_runs_of_every_workload_are_drawn_twice(lab):
    for each in (lab.holder, lab.taken, lab.taker, lab.second, lab.free, lab.waits):
        told = explanation(type(each).objects.select_related("cluster", "leaf", "owner").get(pk=each.pk))
        found = drawings(told, 3)
        assert [drawing.css for drawing in found] == (["wide", "narrow"] if told.runs else [])
        for drawing in found:
            svg = ElementTree.fromstring(drawing.svg)
            ids = [part.get("id") for part in svg.iter() if part.get("id")]
            assert ids == [f"over-{drawing.css}", f"free-{drawing.css}"]
            width = int(svg.get("viewBox").split()[2])
            for bar in svg.findall("rect"):
                assert 0 <= float(bar.get("x")) <= float(bar.get("x")) + float(bar.get("width")) <= width


def test_what_was_preempted_has_a_red_edge_and_is_striped_after_its_contract(lab):
    wide = drawings(explanation(lab.taken), 6)[0].svg
    assert wide.count('class="taken"') == 1
    assert wide.count('fill="url(#over-wide)"') == 1
    assert 'class="f6"' in wide
    assert "Charged, up to" in wide
    assert 'class="taken"' not in drawings(explanation(lab.taker), 6)[0].svg


def test_a_node_without_history_has_no_chart(calm, as_person):
    answer = as_person(calm.ada).get("/budget/A1/")
    assert answer.context["chart"] is None
    assert "Nothing is known of A1" in answer.content.decode()
