"""First starts of a stretch of time, however long the history behind it."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0097_failures")]

    operations = [
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(
                fields=["cluster", "first_started_at"],
                name="workload_first_started",
                condition=Q(first_started_at__isnull=False),
            ),
        ),
    ]
