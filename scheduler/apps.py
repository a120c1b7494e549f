"""Django's entry for the scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """What runs where, and why."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"
