"""Gangs that enter the queue only if a run on one device passed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0070_first_starts")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="after_passed",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="that is its canary, and it enters the queue only if that passed",
            ),
        ),
    ]
