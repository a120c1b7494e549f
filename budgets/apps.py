"""Django's entry for the budgets app."""

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """Who is entitled to what."""

    name = "budgets"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have the tokens of people who are disabled ended."""
        from budgets import hooks
        from budgets.services import tokens

        hooks.person_disabled.append(tokens.end_all)
