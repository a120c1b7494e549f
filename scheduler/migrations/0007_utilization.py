
import django.db.models.deletion
import scheduler.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0009_closed_reviews_stay"),
        ("scheduler", "0006_timeline_tiles"),
    ]

    operations = [
        migrations.CreateModel(
            name="UtilizationHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", scheduler.models.fields.SecondField()),
                (
                    "measured_milli_s",
                    models.BigIntegerField(help_text="held device time over which activity was measured"),
                ),
                (
                    "busy_milli_s",
                    models.BigIntegerField(help_text="activity of these devices, added up over that time"),
                ),
                (
                    "memory_milli",
                    models.PositiveIntegerField(help_text="the most of their memory, in thousandths", null=True),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="utilization", to="scheduler.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["cluster", "hour"], name="utilization_window")],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "hour"), name="one_utilization_row_per_hour"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("busy_milli_s__gte", 0), ("busy_milli_s__lte", models.F("measured_milli_s"))
                        ),
                        name="busy_within_measured",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UtilizationMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rank_index", models.PositiveIntegerField()),
                ("until_at", scheduler.models.fields.SecondField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduler.run"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "rank_index"), name="one_mark_per_rank")],
            },
        ),
    ]
