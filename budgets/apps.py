"""Django's entry for the budgets app."""

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """Who is entitled to what."""

    name = "budgets"
    default_auto_field = "django.db.models.BigAutoField"
