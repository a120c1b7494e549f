"""The administration screen: people can be edited; tree, roles, shares and ledger can only be read.

Governance is not an administration screen (governance.md): those change through `budgets.services`.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest

from budgets.models import BudgetNode, Cluster, LedgerEntry, Person, RoleGrant, Share


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows rows; adds, changes and deletes none."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False


@admin.register(Person)
class PersonAdmin(UserAdmin):
    """People and their log-ins. Nobody with a history is deleted: they are made inactive."""

    list_display = ["username", "display_name", "is_active"]
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Who", {"fields": ("display_name", "email")}),
        ("Signing in", {"fields": ("is_active", "is_staff", "last_login", "date_joined")}),
    )
    readonly_fields = ["last_login", "date_joined"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    """Clusters."""

    list_display = ["name", "title", "unit", "model", "executor"]


@admin.register(BudgetNode)
class BudgetNodeAdmin(ReadOnlyAdmin):
    """The tree."""

    list_display = ["code", "name", "kind", "parent", "closed_at"]
    list_select_related = ["parent"]
    search_fields = ["code", "name"]


@admin.register(RoleGrant)
class RoleGrantAdmin(ReadOnlyAdmin):
    """Who may do what, where, and when."""

    list_display = ["person", "role", "node", "valid_from", "valid_until"]
    list_select_related = ["person", "node"]
    list_filter = ["role"]


@admin.register(Share)
class ShareAdmin(ReadOnlyAdmin):
    """Who is entitled to what, and when."""

    list_display = ["node", "cluster", "basis_points", "valid_from", "valid_until"]
    list_select_related = ["node", "cluster"]
    list_filter = ["cluster"]


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    """What was changed."""

    list_display = ["at", "verb", "node_code", "cluster_name", "person_id", "reason"]
    list_filter = ["verb"]
    date_hierarchy = "at"
