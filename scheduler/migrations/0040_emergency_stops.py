"""Emergency stops of clusters."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0011_slurm_executors"),
        ("scheduler", "0015_simulation_overviews"),
    ]

    operations = [
        migrations.CreateModel(
            name="EmergencyStop",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("started_at", scheduler.models.fields.SecondField()),
                ("reason", models.CharField(max_length=200)),
                ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                ("end_reason", models.CharField(blank=True, max_length=200)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="emergency_stops",
                        to="budgets.cluster",
                    ),
                ),
                (
                    "ended_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "started_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)), fields=("cluster",), name="stopped_once_at_a_time"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True), ("ended_at__gte", models.F("started_at")), _connector="OR"
                        ),
                        name="stop_ends_after_it_began",
                    ),
                ],
            },
        ),
    ]
