"""What workloads send through the network, where a policy scores placements by it: as it was said at submission."""

from __future__ import annotations

from scheduler.engine import cassini
from scheduler.models import Workload

from .build import Seen


def see(seen: Seen) -> None:
    """Note the profiles of all that wait or run. No query where the policy does not ask."""
    if seen.policy.placement_score == "none":
        return
    ids = [row.pk for row in seen.workloads] + [row.workload_id for row in seen.runs]
    rows = Workload.objects.filter(pk__in=ids, communication__isnull=False).order_by()
    seen.profiles = {code: cassini.read_profile(said) for code, said in rows.values_list("code", "communication")}
