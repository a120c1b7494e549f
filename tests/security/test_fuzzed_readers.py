"""Whatever other people's files, programs and browsers say: a reader gives what it can, or one clear line of the one
kind of error that it documents; soon, in little memory, and storing nothing (no test here may open a database).
"""

from __future__ import annotations

import base64
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django import forms
from django.core.exceptions import BadRequest
from django.core.management.base import CommandError
from django.test import RequestFactory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.exceptions import APIException

from budgets.errors import InputError, one_line
from portal import period, shares_csv
from portal.api import paging
from portal.forms import typed
from scheduler.executors import heartbeat
from scheduler.executors.base import DesiredRank, RankFact
from scheduler.executors.reading import Malformed
from scheduler.executors.slurm import Unreadable, accounts, history, jobs, nodes, reading
from scheduler.management import options
from scheduler.simulator import ScenarioError, parse
from scheduler.traces import TraceError, alibaba, counted, philly, swf
from tests.security.mutations import changed, data, texts
from tests.slurm.test_reading import ASSOC, NODES, SACCT, SQUEUE
from tests.traces.test_alibaba import NO_GPU, PART, PODS, WHOLE
from tests.traces.test_alibaba import NODES as ALIBABA_NODES

QUICK, LONG = 40, 300
"""Examples of each reader."""
LONGEST_S = 2.0
"""Of processor time, for one example."""
MOST_MIB = 300
"""By which the whole test may grow."""
LINE_MAX = 700

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-03 01:00:00,60,2,120,11cb48\n2017-10-03 02:00:00,9,1,9,2\n"
)
SWF = (
    "; MaxProcs: 64\n1 0 5 100 4 -1 -1 4 200 -1 1 7 -1 -1 -1 -1 -1 -1\n"
    "2 9 5 100 4 -1 -1 4 200 -1 0 7 -1 -1 -1 -1 -1 -1\n"
)
COUNTED = "job_id,submit_time,duration,num_gpu,user\na,0,10,1,x\nb,5,20,8,y\n"
SHARES = (
    'parent,child,cluster,share,from,until\nA,A1,north,35.00 %,2026-12-01,\nA,A2,north,"12,5",2026-12-01,2027-01-01\n'
)
SINFO = "n1|idle|32|64000|gpu:8|(null)|none|\nn[2-3]|down*|32|64000|gpu:h100:8(S:0-1)|rack1|broken|\n"
TOPOLOGY = "SwitchName=a Level=0 Nodes=n[1-2]\nSwitchName=top Level=1 Nodes=n[1-2] Switches=a\n"
SCENARIO = {
    "name": "small",
    "cluster": {"nodes": {"h1": 8, "h2": 8}},
    "tree": {"A": 1, "B": {"shares": 3, "children": {"B1": 1, "B2": 1}}},
    "policy": {"lookback_s": 604_800, "grace_s": 60},
    "workloads": [{"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "2h"}],
    "until": "1d",
}
FACT = {
    "run": 3, "rank": 0, "state": "exited", "pid": 7, "began_age_s": 9, "exited_age_s": 1, "exit_code": -9,
    "cause": "node", "message": "m", "saved": True, "checkpoint_age_s": 4,
}  # fmt: skip
SYNC = {
    "cluster": "north", "node": "n1", "facts": [FACT], "wake_port": 40000, "wake_secret": "s",
    "wake_address": "10.0.0.1", "epoch": 1, "problems": ["hot"], "samples": [], "directories": ["A1-0001"],
    "repair": 7, "repair_exit_code": 1,
    "repair_message": "done",
}  # fmt: skip
RANK = {
    "run": 3, "workload": "A1-0001", "rank": 0, "nodes": ["n1"], "devices": [0, 1], "unit": "gpu", "command": ["true"],
    "environment": {"A": "b"}, "checkpoint": "c", "owner": 1, "master": "n1", "began": False, "grace_s": 60,
}  # fmt: skip
ANSWER = {"epoch": 1, "desired": [RANK], "self_fence_s": 60, "refused": [{"run": 1, "rank": 0}], "removable": ["A"]}


def cursor(*values: Any) -> str:
    """As the API writes one."""
    return base64.urlsafe_b64encode(json.dumps(list(values)).encode()).decode().rstrip("=")


def of_request(query: str) -> period.Period:
    """The time that an address names."""
    return period.period_named(RequestFactory().get("/x/?" + query.encode("utf-8", "replace").decode()))


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader, what is read, and what it may raise."""

    read: Callable[[Any], Any]
    given: st.SearchStrategy[Any]
    raises: type[Exception] | tuple[type[Exception], ...]


DURATIONS = ("2 h", "45 min", "1 h 30 min", "90", "2d", "10m", "8h", "35.00 %", "12,5", "8")
DAYS = ("from=2026-01-01&until=2026-02-01", "window=7d", "as_of=2026-01-01", "window=30d&as_of=2026-06-30")
READERS: dict[str, Reader] = {
    "Philly": Reader(philly.read, texts([PHILLY]), TraceError),
    "Philly's shares": Reader(philly.read_shares, texts(["vc,node num\n2,8\n11cb48,3\n"]), TraceError),
    "SWF": Reader(swf.read, texts([SWF]), TraceError),
    "Alibaba's pods": Reader(alibaba.read, texts([PODS + WHOLE + PART + NO_GPU]), TraceError),
    "Alibaba's nodes": Reader(alibaba.read_nodes, texts([ALIBABA_NODES]), TraceError),
    "any trace": Reader(counted.read_any, texts([COUNTED, SWF, PHILLY, PODS + WHOLE]), TraceError),
    "scenario text": Reader(parse, texts([json.dumps(SCENARIO, indent=1)]), ScenarioError),
    "scenario": Reader(lambda said: parse(json.dumps(said)), changed([SCENARIO]), ScenarioError),
    "sacct": Reader(lambda text: history.read("sacct", text), texts([SACCT]), Unreadable),
    "squeue": Reader(jobs.read, texts([SQUEUE]), Unreadable),
    "scontrol": Reader(nodes.read, texts([NODES]), Unreadable),
    "sinfo": Reader(lambda text: nodes.read_sinfo("sinfo", text), texts([SINFO]), Unreadable),
    "topology": Reader(nodes.read_topology, texts([TOPOLOGY]), Unreadable),
    "sacctmgr": Reader(lambda text: accounts.read("sacctmgr", text), texts([ASSOC]), Unreadable),
    "hosts": Reader(reading.expand, texts(["n[01-03,7],login", "a[1-2]b[3-4]"]), ValueError),
    "resources": Reader(reading.tres, texts(["cpu=2,mem=62.50G,gres/gpu:h100=8"]), ValueError),
    "CSV of shares": Reader(shares_csv.read, data([SHARES, SHARES.replace(",", ";")]), InputError),
    "heartbeat": Reader(heartbeat.Sync.read, changed([SYNC]), Malformed),
    "fact": Reader(lambda said: RankFact.read(said, "f"), changed([FACT]), Malformed),
    "answer": Reader(heartbeat.Answer.read, changed([ANSWER]), Malformed),
    "desired rank": Reader(lambda said: DesiredRank.read(said, "d"), changed([RANK]), Malformed),
    "cursor": Reader(
        lambda text: paging._read(text, 2), texts([cursor(0, "2026-01-01T00:00:00+00:00", 7), cursor(1, "x", 2)]),
        APIException,
    ),
    "duration": Reader(typed.seconds_of, texts(DURATIONS), ValueError),
    "duration in a form": Reader(typed.DurationField().clean, texts(DURATIONS), forms.ValidationError),
    "share in a form": Reader(typed.ShareField().clean, texts(DURATIONS), forms.ValidationError),
    "units in a form": Reader(typed.UnitsField().clean, texts(DURATIONS), forms.ValidationError),
    "command in a form": Reader(typed.CommandField().clean, texts(["python train.py 'a b'"]), forms.ValidationError),
    "secrets in a form": Reader(typed.SecretsField().clean, texts(["A=b\nC=d e"]), forms.ValidationError),
    "option of seconds": Reader(lambda text: options.seconds_of(text, "--in"), texts(DURATIONS), CommandError),
    "option of an instant": Reader(
        lambda text: options.instant_of(text, "--at"), texts(["2026-12-01T08:00", "now", "2026-12-01T08:00:00+02:00"]),
        CommandError,
    ),
    "time in an address": Reader(of_request, texts(DAYS), BadRequest),
}  # fmt: skip


def said(error: Exception) -> list[str]:
    """What an error tells people."""
    if isinstance(error, forms.ValidationError):
        return list(error.messages)
    if isinstance(error, APIException):
        return [str(each) for every in error.detail.values() for each in every]  # type: ignore[union-attr]
    if isinstance(error, BadRequest):
        return [one_line(str(error))]  # as the page of an error says it
    return [str(error)]


def is_line(text: str) -> bool:
    """One line that every terminal, page and log can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(text) < LINE_MAX and text.isprintable()


def try_it(reader: Reader, given: Any) -> None:
    """Read it: a value, or the documented error in one line, and soon."""
    began_s = time.process_time()
    try:
        found = reader.read(given)
    except reader.raises as error:
        lines = said(error)
    else:
        faults = found[1] if reader.read is shares_csv.read else []
        lines = [f"{fault.column} {fault.message}" for fault in faults]
    assert time.process_time() - began_s < LONGEST_S
    assert [line for line in lines if not is_line(line)] == []


def fuzz(name: str, examples: int) -> None:
    """Try so many examples, and look at how much memory that took."""
    reader = READERS[name]
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(reader.given)
    def run(given: Any) -> None:
        try_it(reader, given)

    run()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024 < MOST_MIB


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_a_value_or_one_clear_line(name: str) -> None:
    fuzz(name, QUICK)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_a_value_or_one_clear_line_however_long_it_is_tried(name: str) -> None:
    fuzz(name, LONG)


@pytest.mark.parametrize("name", READERS)
def test_what_is_right_is_read(name: str) -> None:
    """Else the tests above would try nothing but refusals."""
    right = {
        "Philly": PHILLY, "Philly's shares": "vc,node num\n2,8\n", "SWF": SWF, "Alibaba's pods": PODS + WHOLE,
        "Alibaba's nodes": ALIBABA_NODES, "any trace": COUNTED, "scenario text": json.dumps(SCENARIO),
        "scenario": SCENARIO, "sacct": SACCT, "squeue": SQUEUE, "scontrol": NODES, "sinfo": SINFO,
        "topology": TOPOLOGY, "sacctmgr": ASSOC,
        "hosts": "n[01-03]", "resources": "cpu=2", "CSV of shares": SHARES.encode(), "heartbeat": SYNC, "fact": FACT,
        "answer": ANSWER, "desired rank": RANK, "cursor": cursor(0, "x", 7), "duration": "2 h",
        "duration in a form": "2 h", "share in a form": "35.00 %", "units in a form": "8",
        "command in a form": "a 'b c'",
        "secrets in a form": "A=b",
        "option of seconds": "2d", "option of an instant": "now", "time in an address": "window=7d",
    }  # fmt: skip
    READERS[name].read(right[name])
