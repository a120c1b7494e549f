"""Django's entry for the scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """What runs where, and why."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register who may do what here, and what a change of the budget tree means for workloads."""
        from scheduler import authority  # noqa: F401 (importing it registers its actions)
        from scheduler.services import leaves

        leaves.listen()
