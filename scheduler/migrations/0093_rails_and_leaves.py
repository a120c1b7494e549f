"""Which switch a node is wired to, and which leaves that one belongs to; unsaid of all that are there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0085_advice")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="rail",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="which leaves its own belongs to", max_length=60
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="leaf",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="the switch that it is wired to", max_length=60
            ),
        ),
    ]
