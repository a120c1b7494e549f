"""`/healthz` (this process answers) and `/readyz` (the whole works): a word for strangers, details for operators."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from budgets.authority import may
from portal import health_checks
from portal.metrics_access import is_reader

UNREADY = 503


@require_safe
@never_cache
def alive(_request: HttpRequest) -> HttpResponse:
    """This process answers; nothing else is asked."""
    return HttpResponse("alive\n", "text/plain")


@require_safe
@never_cache
def ready(request: HttpRequest) -> HttpResponse:
    """Whether everything works that has to; `?only=database,migrations` asks for a part. 503 where it does not.

    Those who may read figures, and operators who are signed in, get the details as JSON.
    """
    names = [name for name in request.GET.get("only", "").split(",") if name] or list(health_checks.CHECKS)
    unknown = [name for name in names if name not in health_checks.ALL]
    if unknown:
        return HttpResponse(f"only: must be of {', '.join(health_checks.ALL)}\n", "text/plain", 400)
    health = health_checks.look(names)
    status = 200 if health.is_well else UNREADY
    if not (is_reader(request) or _operates(request, health)):
        return HttpResponse("ready\n" if health.is_well else "not ready\n", "text/plain", status)
    checks = {
        name: {"ok": each.is_well, "detail": each.words, **({"figures": each.figures} if each.figures else {})}
        for name, each in health.found.items()
    }
    return JsonResponse({"ready": health.is_well, "at": health.at.isoformat(), "checks": checks}, status=status)


def _operates(request: HttpRequest, health: health_checks.Health) -> bool:
    """Whether an operator is signed in; without a database nobody is known."""
    database = health.found.get("database") or health_checks.look(["database"]).found["database"]
    return database.is_well and may(getattr(request, "user", None), "node.operate")
