"""What pages say of the orders that a cluster's policy names, where these are not the usual ones."""

from __future__ import annotations

from django.utils.translation import gettext, gettext_lazy

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


LEVELS = gettext_lazy("program before program, then project before project")


def goes_first(policy: Policy) -> str:
    """Whom the order in force looks at first: among budgets, and inside a project."""
    if policy.tree_order == "fair":
        who = gettext(
            "Whoever holds less than its minimum goes first, then who holds less of its fair share: {levels}."
        )
    elif policy.tree_order == "drf":
        who = gettext("Whoever has the smaller dominant share now goes first: {levels}.")
    elif policy.decay_s is not None:
        who = gettext(
            "Whoever has had less of its share goes first, where use counts the less the longer ago it was: {levels}."
        )
    else:
        who = gettext("Whoever has had less of its share goes first: {levels}.")
    return f"{who.format(levels=LEVELS)} {inside_a_project(policy)}"


def who_may_take(policy: Policy) -> str:
    """Of another budget, who may take over from a run whose contract is over."""
    if policy.tree_order == "fair":
        return gettext("somebody who holds less of their fair share")
    if policy.tree_order == "drf":
        return gettext("somebody with a smaller dominant share")
    return gettext("somebody who has had less of their share")


def among_siblings(policy: Policy, *, is_funded: bool = True) -> str:
    """What an order by what is held now goes by; "" where it goes by what was used."""
    if policy.tree_order == "fair" and is_funded:
        return gettext(
            "Held = what funded runs and plans hold now / the part by weight, which is the share times the node's "
            "weight. At each level whoever holds less than its minimum goes first, then who holds least."
        )
    if policy.tree_order == "drf" and is_funded:
        return gettext(
            "Dominant share = the largest part of all GPUs, cores or memory that funded runs and plans hold now / "
            "entitled. At each level whoever has the smallest goes first."
        )
    if policy.tree_order == "fair":
        return gettext(
            "Free cycles are shared fairly too: at each level whoever's unallocated runs hold least now, by the part "
            "by weight, goes first."
        )
    if policy.tree_order == "drf":
        return gettext(
            "Free cycles are shared fairly too: at each level whoever's unallocated runs have the smallest dominant "
            "share now goes first. The bars show the GPUs that they hold / entitled."
        )
    return ""


def use_decays(policy: Policy) -> str:
    """How use counts, where it is not in full inside the lookback; "" where it is."""
    if policy.decay_s is None:
        return ""
    said = gettext("Use counts the less the longer ago it was: half after {time}, a quarter after twice that.")
    return said.format(time=formats.duration(policy.decay_s))
