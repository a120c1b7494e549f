"""What pages say of the orders that a cluster's policy names, where these are not the usual ones."""

from __future__ import annotations

from django.utils.translation import gettext

from portal import formats
from scheduler.engine import Policy


def inside_a_project(policy: Policy) -> str:
    """Who goes first among the workloads of one project."""
    if policy.leaf_order == "tiresias":
        return gettext("Inside a project the higher priority goes first, then who has attained less service.")
    if policy.leaf_order == "gittins":
        return gettext(
            "Inside a project the higher priority goes first, then who has attained less service, then who is likely "
            "to end soon."
        )
    if policy.leaf_order == "shortest":
        return gettext("Inside a project the higher priority goes first, then who is thought to take less time.")
    if policy.leaf_order == "themis":
        return gettext(
            "Inside a project the higher priority goes first, then who is further behind the time that a fair share "
            "would have taken."
        )
    return gettext("Inside a project the higher priority goes first, then who submitted first.")


def ahead_inside(policy: Policy) -> str:
    """Why one of the same project and priority is ahead of another."""
    if policy.leaf_order in ("tiresias", "gittins"):
        return gettext("Same project and priority, and less service attained, or earlier")
    if policy.leaf_order == "shortest":
        return gettext("Same project and priority, and thought to take less time, or earlier")
    if policy.leaf_order == "themis":
        return gettext("Same project and priority, and further behind a fair share, or earlier")
    return gettext("Same project and priority, submitted earlier")


def among_siblings(policy: Policy) -> str:
    """What an order by what is held now goes by; "" where it goes by what was used."""
    if policy.tree_order == "fair":
        return gettext(
            "Held = what funded runs and plans hold now / the part by weight, which is the share times the node's "
            "weight. At each level whoever holds less than its minimum goes first, then who holds least."
        )
    if policy.tree_order == "drf":
        return gettext(
            "Dominant share = the largest part of all GPUs, cores or memory that funded runs and plans hold now / "
            "entitled. At each level whoever has the smallest goes first."
        )
    return ""


def use_decays(policy: Policy) -> str:
    """How use counts, where it is not in full inside the lookback; "" where it is."""
    if policy.decay_s is None:
        return ""
    said = gettext("Use counts the less the longer ago it was: half after {time}, a quarter after twice that.")
    return said.format(time=formats.duration(policy.decay_s))
