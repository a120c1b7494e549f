"""Every pass may rewrite the places of all who wait: with room in their pages and no index on it, only rows change."""

from django.db import migrations, models
from django.db.models import Q

OPEN = ("queued", "starting", "running", "leaving", "unreachable", "held")


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0004_simulations")]
    operations = [
        migrations.RemoveIndex("workload", "workload_open"),
        migrations.AddIndex(
            "workload", models.Index(fields=["cluster"], name="workload_open", condition=Q(state__in=OPEN))
        ),
        migrations.RunSQL(
            "ALTER TABLE scheduler_workload SET (fillfactor = 60)", "ALTER TABLE scheduler_workload RESET (fillfactor)"
        ),
    ]
