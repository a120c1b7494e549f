"""What training runs report of their throughput, and what one device of a cluster can do at most."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0022_kind_access"),
        ("scheduler", "0093_rails_and_leaves"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ThroughputReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", scheduler.models.fields.SecondField(help_text="the end of that time")),
                ("tokens", models.PositiveBigIntegerField()),
                ("span_ms", models.PositiveBigIntegerField()),
                ("parameters", models.PositiveBigIntegerField(help_text="of the model")),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="throughput", to="scheduler.run"
                    ),
                ),
            ],
            options={
                "ordering": ["run", "at"],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "at"), name="one_throughput_report_a_second"),
                    models.CheckConstraint(
                        condition=models.Q(("parameters__gt", 0), ("span_ms__gt", 0)),
                        name="throughput_over_some_time_of_some_model",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DevicePeak",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "gflops",
                    models.PositiveBigIntegerField(
                        help_text="10^9 operations a second, with 16-bit numbers, without sparsity"
                    ),
                ),
                (
                    "said_at",
                    scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="device_peak", to="budgets.cluster"
                    ),
                ),
                (
                    "said_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("gflops__gt", 0)), name="a_device_does_something")
                ],
            },
        ),
    ]
