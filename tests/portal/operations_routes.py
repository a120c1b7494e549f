"""Operations, by the API and the pages of the emergency stop: a part of the table in test_routes.py."""

from __future__ import annotations

C = "api/v1/clusters/<slug:cluster>/"
N = f"{C}nodes/<str:name>/"
W = "api/v1/workloads/<str:code>/"
NORTH = "/api/v1/clusters/north/"
N01 = f"{NORTH}nodes/n01/"

EVERYONE = (401, 200, 200, 200, 200)
OPERATORS = (401, 403, 403, 403, 400)
"""By an empty body, which says no reason."""

QUESTION = ("sign in", 403, 403, 403, 200)
ASKED = ("sign in", 403, 403, 403, 400)

PAGE = ("sign in", 200, 200, 200, 200)

OPERATIONS: list[tuple] = [
    ("help/api/", "/help/api/", PAGE),
    ("help/api/<slug:key>/", "/help/api/workloads_submit/", PAGE),
    ("clusters/<slug:cluster>/stop/", "/clusters/north/stop/", QUESTION),
    ("clusters/<slug:cluster>/stop/", "/clusters/north/stop/", ASKED, "post"),
    ("clusters/<slug:cluster>/start/", "/clusters/north/start/", QUESTION),
    ("clusters/<slug:cluster>/start/", "/clusters/north/start/", ASKED, "post"),
    ("nodes/<slug:cluster>/<str:name>/stop/", "/nodes/north/n01/stop/", QUESTION),
    ("nodes/<slug:cluster>/<str:name>/stop/", "/nodes/north/n01/stop/", ASKED, "post"),
    ("workloads/<str:code>/stop/", "/workloads/{running}/stop/", QUESTION),
    ("workloads/<str:code>/stop/", "/workloads/{running}/stop/", ASKED, "post"),
    (C, NORTH, EVERYONE),
    (f"{C}policy/", f"{NORTH}policy/", EVERYONE),
    (f"{C}policy/", f"{NORTH}policy/", OPERATORS, "patch"),
    (f"{C}peak/", f"{NORTH}peak/", EVERYONE),
    (f"{C}peak/", f"{NORTH}peak/", OPERATORS, "put"),
    (f"{C}stop/", f"{NORTH}stop/", (401, 405, 405, 405, 405)),
    (f"{C}stop/", f"{NORTH}stop/", OPERATORS, "post"),
    (f"{C}start/", f"{NORTH}start/", OPERATORS, "post"),
    (f"{C}passes/", f"{NORTH}passes/", EVERYONE),
    (f"{C}passes/<int:number>/", f"{NORTH}passes/{{pass}}/", EVERYONE),
    (f"{C}runs/", f"{NORTH}runs/", EVERYONE),
    (f"{C}usage/", f"{NORTH}usage/", EVERYONE),
    (f"{C}usage/", f"{NORTH}usage/?by=person&node=A1", EVERYONE),
    (f"{C}nodes/", f"{NORTH}nodes/", OPERATORS, "post"),
    (N, N01, EVERYONE),
    (f"{N}drain/", f"{N01}drain/", OPERATORS, "post"),
    (f"{N}resume/", f"{N01}resume/", OPERATORS, "post"),
    (f"{N}health/", f"{N01}health/", OPERATORS, "post"),
    (f"{N}stop/", f"{N01}stop/", OPERATORS, "post"),
    (f"{N}windows/", f"{N01}windows/", EVERYONE),
    (f"{N}windows/", f"{N01}windows/", OPERATORS, "post"),
    (f"{N}windows/<int:number>/", f"{N01}windows/1/", (401, 403, 403, 403, 404), "delete"),
    (f"{C}join-tokens/", f"{NORTH}join-tokens/", (401, 403, 403, 403, 200)),
    (f"{C}join-tokens/", f"{NORTH}join-tokens/", OPERATORS, "post"),
    (f"{C}join-tokens/<int:number>/", f"{NORTH}join-tokens/1/", (401, 403, 403, 403, 404), "delete"),
    (f"{W}stop/", "/api/v1/workloads/{running}/stop/", OPERATORS, "post"),
    (f"{W}logs/", "/api/v1/workloads/{running}/logs/", (401, 404, 200, 200, 200)),
    (f"{W}throughput/", "/api/v1/workloads/{running}/throughput/", (401, 404, 200, 200, 200)),
    (f"{W}throughput/", "/api/v1/workloads/{running}/throughput/", (401, 404, 400, 400, 400), "post"),
    (f"{W}runs/", "/api/v1/workloads/{running}/runs/", EVERYONE),
    ("api/v1/audit/", "/api/v1/audit/", EVERYONE),
    ("api/v1/audit/", "/api/v1/audit/?node=A1", (401, 404, 200, 200, 200)),
]
