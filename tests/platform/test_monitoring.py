"""What is shipped for Prometheus and Grafana names figures that there are, all of them, and is in their own format."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from portal import metrics
from tests.conftest import REPOSITORY
from tests.portal.conftest import Laboratory, busy

DASHBOARD = REPOSITORY / "deploy" / "grafana" / "allotment.json"
PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
NAME = re.compile(r"\ballotment_[a-z0-9_]+")
PARTS = re.compile(r"_(bucket|count|sum|total)$")
UNITS = {"short", "s", "percentunit", "reqps", "ops"}


@pytest.fixture(scope="module")
def dashboard() -> dict:
    """As it is imported."""
    return json.loads(DASHBOARD.read_text())


_families: dict[str, str] = {}


@pytest.fixture
def families(transactional_db) -> dict[str, str]:
    """The families of /metrics with their types, whether or not something of them is there now. Read once."""
    if not _families:
        lab: Laboratory = busy()
        assert lab.cluster.name == "north"
        metrics.forget()
        text = metrics.exposition().decode()
        _families.update({each.name: each.type for each in text_string_to_metric_families(text)})
        metrics.forget()
    return _families


def queries(dashboard: dict) -> Iterator[str]:
    """Every expression of it."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        yield variable.get("definition", "")


def alerts() -> list[dict]:
    """Every alert that is shipped."""
    rules = yaml.safe_load((PROMETHEUS / "allotment.rules.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def family_of(name: str, families: dict[str, str]) -> str:
    """The family of a sample's name."""
    return name if name in families else PARTS.sub("", name)


def test_every_figure_has_a_panel_and_every_panel_has_figures(dashboard, families):
    shown = {family_of(name, families) for query in queries(dashboard) for name in NAME.findall(query)}
    assert shown - set(families) == set()
    assert set(families) - shown == set()


def test_what_is_named_fits_its_type(dashboard, families):
    for query in [*queries(dashboard), *(rule["expr"] for rule in alerts())]:
        for name in NAME.findall(query):
            family = family_of(name, families)
            ending = name.removeprefix(family)
            kind = families[family]
            allowed = {"counter": {"_total"}, "histogram": {"_bucket", "_sum", "_count"}}.get(kind, {""})
            assert ending in allowed, (query, name, kind)
            if kind in ("counter", "histogram"):
                assert re.search(rf"(rate|increase)\({name}", query), query


def test_names_follow_the_conventions(families):
    for name, kind in families.items():
        assert re.fullmatch(r"allotment_[a-z][a-z0-9_]*", name), name
        assert not name.endswith(("_ms", "_milli", "_percent", "_count", "_sum")), name
        assert kind in ("gauge", "counter", "histogram"), name


def test_the_dashboard_is_what_grafana_imports(dashboard):
    assert (dashboard["uid"], dashboard["title"]) == ("allotment", "Allotment")
    assert dashboard["schemaVersion"] >= 39
    variables = {each["name"]: each["type"] for each in dashboard["templating"]["list"]}
    assert variables == {"datasource": "datasource", "cluster": "query", "budget": "query"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat", "bargauge")
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEF"[: len(panel["targets"])])
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
        for target in panel["targets"]:
            assert target["expr"].count("(") == target["expr"].count(")")
            if "_seconds" in target["expr"] and "increase" not in target["expr"]:
                assert panel["fieldConfig"]["defaults"]["unit"] == "s", panel["title"]
            if "_ratio" in target["expr"]:
                assert panel["fieldConfig"]["defaults"]["unit"] == "percentunit", panel["title"]


def test_alerts_name_figures_that_there_are(families):
    rules = alerts()
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert {family_of(name, families) for name in NAME.findall(rule["expr"])} <= set(families), rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_prometheus_is_told_where_and_with_which_token():
    said = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    (job,) = said["scrape_configs"]
    assert (job["metrics_path"], job["scheme"]) == ("/metrics", "https")
    assert job["authorization"] == {"credentials_file": "/etc/prometheus/allotment_metrics_token"}
    assert [path.rsplit("/", 1)[1] for path in said["rule_files"]] == ["allotment.rules.yml"]


def test_promtool_finds_nothing_wrong():
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool (the package prometheus)")
    for words in (("rules", "allotment.rules.yml"), ("config", "--syntax-only", "prometheus.yml")):
        done = subprocess.run(
            ["promtool", "check", words[0], *words[1:-1], str(PROMETHEUS / words[-1])],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
