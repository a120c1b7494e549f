"""How long a workload was thought to execute, where the order inside its leaf asks for it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0055_live_ranks")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="predicted_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="how long it was thought to execute, where the order inside its leaf asks",
                null=True,
            ),
        ),
    ]
