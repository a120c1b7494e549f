"""How a cluster's Slurm is, for the banner on the pages of a cluster."""

from __future__ import annotations

from django import template

from budgets.models import Cluster
from portal.views.slurm import Standing, standing

register = template.Library()


@register.simple_tag
def slurm_of(cluster: Cluster) -> Standing | None:
    """How its Slurm is; None where it has none."""
    return standing(cluster)
