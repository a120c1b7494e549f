"""The latest workloads of all, however many there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0060_predicted")]

    operations = [
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(fields=["-submitted_at", "-id"], name="workload_latest"),
        ),
    ]
