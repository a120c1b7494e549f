"""The last number given to a workload of each budget node."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0002_rules_in_the_database")]

    operations = [
        migrations.CreateModel(
            name="WorkloadNumber",
            fields=[
                ("leaf_code", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("last", models.PositiveIntegerField()),
            ],
        ),
    ]
