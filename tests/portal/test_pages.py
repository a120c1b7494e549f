"""Every page opens and says what it is for."""

from __future__ import annotations

import pytest


PAGES = [
    "/",
    "/tree/",
    "/tree/north/",
    "/budget/A/",
    "/budget/LAB/?window=28d",
    "/budget/A1/?cluster=north&window=1d",
    "/queue/north/",
    "/nodes/north/",
    "/workloads/",
    "/workloads/new/",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens(lab, as_person, path):
    answer = as_person(lab.ada).get(path)
    assert answer.status_code == 200, answer.content.decode()[:2000]


@pytest.mark.parametrize("who", ["holder", "taken", "taker", "waits", "second", "free"])
def test_a_workload_opens(lab, as_person, who):
    client = as_person(lab.ada)
    for tail in ("", "text/"):
        answer = client.get(f"/workloads/{getattr(lab, who).code}/{tail}")
        assert answer.status_code == 200
        print(who, getattr(lab, who).state, getattr(lab, who).reason_text)
