"""The web process's entry."""

import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
application = get_wsgi_application()

if not settings.HAS_LASTING_SECRET_KEY:
    raise ImproperlyConfigured("SECRET_KEY or SECRET_KEY_FILE must be set for the web process")
