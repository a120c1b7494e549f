"""When a workload returned to the queue, and what of its progress counts no more for the order inside its leaf."""

from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0041_latest_workloads")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="forgiven_s",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="of its progress, what counts no more for the order inside its leaf",
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="requeued_at",
            field=scheduler.models.fields.SecondField(
                blank=True, help_text="when its last run ended, and it returned to the queue", null=True
            ),
        ),
    ]
