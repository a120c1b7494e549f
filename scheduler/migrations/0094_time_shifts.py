"""What a workload sends in each of its iterations, and how a run's were shifted beside those of others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0081_throughput")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="communication",
            field=models.JSONField(blank=True, help_text="what it sends in each iteration; null: unsaid", null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="time_shift",
            field=models.JSONField(
                blank=True, help_text="its place on the network beside others' iterations", null=True
            ),
        ),
    ]
