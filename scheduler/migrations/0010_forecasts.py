import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0010_person_language"),
        ("scheduler", "0020_execution"),
    ]

    operations = [
        migrations.CreateModel(
            name="Forecast",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("asked_at", scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "at",
                    scheduler.models.fields.SecondField(
                        blank=True, help_text="the instant whose state it begins with", null=True
                    ),
                ),
                ("horizon_s", models.PositiveIntegerField(default=0)),
                ("draws", models.PositiveSmallIntegerField(default=0)),
                ("draws_wanted", models.PositiveSmallIntegerField(default=0)),
                (
                    "touched_at",
                    scheduler.models.fields.SecondField(
                        blank=True, help_text="a sign of life of the worker that makes it", null=True
                    ),
                ),
                ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                ("took_ms", models.PositiveIntegerField(blank=True, null=True)),
                ("error", models.CharField(blank=True, max_length=300)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="forecasts", to="budgets.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ForecastStart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(help_text="its class", max_length=12)),
                (
                    "futures",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), size=None),
                ),
                ("low_s", models.PositiveIntegerField(blank=True, null=True)),
                ("middle_s", models.PositiveIntegerField(blank=True, null=True)),
                ("high_s", models.PositiveIntegerField(blank=True, null=True)),
                ("start_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("held", "Held"),
                            ("missed", "Missed"),
                            ("left", "it was cancelled or held before it started"),
                        ],
                        default="",
                        max_length=8,
                    ),
                ),
                (
                    "forecast",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="starts", to="scheduler.forecast"
                    ),
                ),
                (
                    "workload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="scheduler.workload"
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="forecast",
            index=models.Index(fields=["cluster", "-id"], name="forecast_latest"),
        ),
        migrations.AddConstraint(
            model_name="forecast",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ("waiting", "running"))),
                fields=("cluster",),
                name="one_forecast_at_a_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="forecast",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("state__in", ("waiting", "running"))),
                    models.Q(("ended_at__isnull", False), ("state__in", ("finished", "failed"))),
                    _connector="OR",
                ),
                name="forecast_ends_once",
            ),
        ),
        migrations.AddIndex(
            model_name="forecaststart",
            index=models.Index(condition=models.Q(("outcome", "")), fields=["forecast"], name="forecast_start_open"),
        ),
        migrations.AddConstraint(
            model_name="forecaststart",
            constraint=models.UniqueConstraint(fields=("forecast", "workload"), name="one_start_of_a_workload"),
        ),
    ]
