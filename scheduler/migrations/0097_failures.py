"""Why runs failed, and how often a workload is tried again for it."""

from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0094_time_shifts")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="retries",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="so often it is tried again where it failed by no fault of its own"
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="retried",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, help_text="so often it was tried again"),
        ),
        migrations.AddField(
            model_name="run",
            name="failure_due_at",
            field=scheduler.models.fields.SecondField(
                blank=True, help_text="it failed: from then on it is judged why", null=True
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="failure_class",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="why it failed (scheduler.failures)",
                max_length=20,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="failure_line",
            field=models.TextField(blank=True, db_default="", default="", help_text="printed, and says so"),
        ),
        migrations.AddField(
            model_name="run",
            name="failure_signature",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="the same without what varies", max_length=200
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("failure_due_at__isnull", False)), fields=["failure_due_at"], name="run_unjudged"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("failure_class", ""), _negated=True),
                fields=["cluster", "ended_at"],
                name="run_failures",
            ),
        ),
    ]
