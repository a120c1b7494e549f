"""Simulations may compare policies over seeds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """One more kind."""

    dependencies = [("scheduler", "0080_waiting_after_a_run")]

    operations = [
        migrations.AlterField(
            model_name="simulation",
            name="kind",
            field=models.CharField(
                choices=[
                    ("comparison", "policies side by side"),
                    ("what_if", "what if the shares were others"),
                    ("sweep", "a knob swept"),
                    ("policies", "policies compared over seeds"),
                ],
                max_length=12,
            ),
        ),
    ]
