"""The addresses of the API's governance half, for the table of test_routes: pattern, path, what each gets, method.

What an empty body would change is asked for by GET, which is no method of it.
"""

from __future__ import annotations

OK = 200
ALL = (401, OK, OK, OK, OK)
REFUSED = (401, 400, 400, 400, 400)
POSTED = (401, 405, 405, 405, 405)
INSIDE_A1, INSIDE_A = (401, 404, OK, OK, OK), (401, 404, 404, OK, OK)
ASKED, REVIEW = "requests/<int:number>/", "reviews/<int:number>/"
PROPOSED, SIMULATION = "reallocations/<int:number>/", "simulations/<int:number>/"
ITEM = f"{REVIEW}items/<int:position>/"

GOVERNANCE: list[tuple[str, str, tuple[object, ...], str]] = [
    (f"api/v1/{pattern}", f"/api/v1/{path}", gets, method)
    for pattern, path, gets, method in (
        ("budget/<str:code>/", "budget/A/", ALL, "get"),
        ("budget/<str:code>/children/", "budget/A/children/", ALL, "get"),
        ("budget/<str:code>/children/", "budget/A/children/", REFUSED, "post"),
        ("budget/<str:code>/rename/", "budget/A/rename/", REFUSED, "post"),
        ("budget/<str:code>/move/", "budget/A/move/", REFUSED, "post"),
        ("budget/<str:code>/close/", "budget/A/close/", REFUSED, "post"),
        ("budget/<str:code>/roles/", "budget/A/roles/", ALL, "get"),
        ("budget/<str:code>/roles/", "budget/A/roles/", REFUSED, "post"),
        ("budget/<str:code>/roles/<int:grant>/end/", "budget/A/roles/{grant}/end/", REFUSED, "post"),
        ("budget/<str:code>/roles/<int:grant>/end/", "budget/A1/roles/{grant}/end/", (401, 404, 404, 404, 404), "post"),
        # The request is Ada's for A1, the draft hers, the proposal Mia's own draft; the review is Mia's of A, and open.
        ("clusters/<slug:cluster>/limits/<str:code>/", "clusters/north/limits/A/", ALL, "get"),
        ("clusters/<slug:cluster>/limits/<str:code>/", "clusters/north/limits/A/", (401, 403, 403, 400, 403), "post"),
        ("clusters/<slug:cluster>/cells/", "clusters/north/cells/", ALL, "get"),
        ("clusters/<slug:cluster>/cells/<str:code>/", "clusters/north/cells/A1/", ALL, "get"),
        ("clusters/<slug:cluster>/cells/<str:code>/", "clusters/north/cells/A1/", (401, 403, 403, 400, 403), "put"),
        ("clusters/<slug:cluster>/cells/<str:code>/", "clusters/north/cells/A1/", (401, 403, 403, 428, 403), "delete"),
        ("requests/", "requests/", ALL, "get"),
        ("requests/", "requests/", REFUSED, "post"),
        (ASKED, "requests/{asked}/", INSIDE_A1, "get"),
        (ASKED, "requests/{drafted}/", (401, 404, OK, 404, 404), "get"),
        (ASKED, "requests/{asked}/", (401, 404, 428, 428, 428), "patch"),
        (f"{ASKED}submit/", "requests/{asked}/submit/", (401, 404, 409, 409, 409), "post"),
        (f"{ASKED}withdraw/", "requests/{asked}/withdraw/", POSTED, "get"),
        (f"{ASKED}give-back/", "requests/{asked}/give-back/", (401, 404, 400, 400, 400), "post"),
        (f"{ASKED}pass-up/", "requests/{asked}/pass-up/", (401, 404, 400, 400, 400), "post"),
        (f"{ASKED}deny/", "requests/{asked}/deny/", (401, 404, 400, 400, 400), "post"),
        (f"{ASKED}approve/", "requests/{asked}/approve/", (401, 404, 400, 400, 400), "post"),
        (f"{ASKED}comments/", "requests/{asked}/comments/", INSIDE_A1, "get"),
        (f"{ASKED}comments/", "requests/{asked}/comments/", (401, 404, 400, 400, 400), "post"),
        (f"{ASKED}attachments/", "requests/{asked}/attachments/", INSIDE_A1, "get"),
        (f"{ASKED}attachments/<int:attachment>/", "requests/{asked}/attachments/{file}/", INSIDE_A1, "get"),
        ("reallocations/", "reallocations/", ALL, "get"),
        ("reallocations/", "reallocations/", REFUSED, "post"),
        (PROPOSED, "reallocations/{proposed}/", (401, 404, 404, OK, 404), "get"),
        (PROPOSED, "reallocations/{decided}/", ALL, "get"),
        (f"{PROPOSED}propose/", "reallocations/{proposed}/propose/", (401, 404, 404, 400, 404), "post"),
        (f"{PROPOSED}apply/", "reallocations/{proposed}/apply/", (401, 404, 404, 400, 404), "post"),
        (f"{PROPOSED}approve/", "reallocations/{proposed}/approve/", (401, 404, 404, 400, 404), "post"),
        (f"{PROPOSED}deny/", "reallocations/{proposed}/deny/", (401, 404, 404, 400, 404), "post"),
        (f"{PROPOSED}withdraw/", "reallocations/{proposed}/withdraw/", POSTED, "get"),
        (f"{PROPOSED}comments/", "reallocations/{proposed}/comments/", (401, 404, 404, OK, 404), "get"),
        (f"{PROPOSED}comments/", "reallocations/{proposed}/comments/", (401, 404, 404, 400, 404), "post"),
        ("decisions/", "decisions/", ALL, "get"),
        ("decisions/<int:number>/", "decisions/{decided}/", ALL, "get"),
        ("decisions/<int:number>/", "decisions/{proposed}/", (401, 404, 404, 404, 404), "get"),
        ("decisions/<int:number>/follow-up/", "decisions/{decided}/follow-up/", ALL, "get"),
        ("decisions/<int:number>/follow-up/", "decisions/{decided}/follow-up/", REFUSED, "post"),
        ("follow-ups/", "follow-ups/", ALL, "get"),
        ("reviews/", "reviews/", ALL, "get"),
        ("reviews/", "reviews/", REFUSED, "post"),
        (REVIEW, "reviews/{review}/", INSIDE_A, "get"),
        (f"{REVIEW}open/", "reviews/{review}/open/", (401, 404, 404, 409, 409), "post"),
        (f"{REVIEW}cancel/", "reviews/{review}/cancel/", (401, 404, 404, 400, 400), "post"),
        (f"{REVIEW}take-up/", "reviews/{review}/take-up/", (401, 404, 404, 400, 400), "post"),
        (f"{REVIEW}show/", "reviews/{review}/show/", (401, 404, 404, 400, 400), "post"),
        (f"{REVIEW}close/", "reviews/{review}/close/", (401, 404, 404, 400, 400), "post"),
        (f"{REVIEW}snapshot/", "reviews/{review}/snapshot/", INSIDE_A, "get"),
        (ITEM, "reviews/{review}/items/1/", INSIDE_A, "get"),
        (f"{ITEM}mark/", "reviews/{review}/items/1/mark/", (401, 404, 404, 400, 400), "post"),
        (f"{ITEM}speak/", "reviews/{review}/items/1/speak/", (401, 404, 404, 400, 400), "post"),
        ("people/", "people/", ALL, "get"),
        ("people/<int:number>/", "people/{ada}/", ALL, "get"),
        ("people/<int:number>/disable/", "people/{ada}/disable/", REFUSED, "post"),
        ("people/<int:number>/enable/", "people/{ada}/enable/", REFUSED, "post"),
        ("people/<int:number>/erase/", "people/{ada}/erase/", REFUSED, "post"),
        ("delegations/", "delegations/", ALL, "get"),
        ("delegations/", "delegations/", REFUSED, "post"),
        ("delegations/<int:number>/end/", "delegations/{delegation}/end/", POSTED, "get"),
        ("house/", "house/", ALL, "get"),
        ("house/", "house/", (401, 403, 403, 403, 403), "patch"),
        (f"{SIMULATION}results/", "simulations/{simulation}/results/", ALL, "get"),
        (f"{SIMULATION}scenario/", "simulations/{simulation}/scenario/", (401, 404, 404, 404, 404), "get"),
        (f"{SIMULATION}cancel/", "simulations/{simulation}/cancel/", POSTED, "get"),
        (f"{SIMULATION}again/", "simulations/{simulation}/again/", POSTED, "get"),
    )
]
