"""Every address of the portal."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/v1/agent/", include("portal.api.agent")),
    path("admin/", admin.site.urls),
]
