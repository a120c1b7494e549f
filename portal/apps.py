"""Django's entry for the portal app."""

from importlib import import_module

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """Pages, API and the project's wiring."""

    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make the project's Celery application the one that shared tasks are sent with."""
        import_module("portal.celery")
