"""What the advisor found in programs that were submitted, and which of its rules refuse them."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import scheduler.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0022_kind_access"),
        ("scheduler", "0090_policies_over_seeds"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Advice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("read_at", scheduler.models.fields.SecondField()),
                (
                    "files",
                    models.PositiveIntegerField(help_text="given with the submission; 0: its command alone was read"),
                ),
                (
                    "overrode",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40),
                        default=list,
                        help_text="rules that refuse it, but not an operator",
                        size=None,
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["cluster", "read_at"], name="advice_of_cluster")]},
        ),
        migrations.CreateModel(
            name="AdviceFinding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("rule", models.CharField(max_length=40)),
                ("severity", models.CharField(max_length=8)),
                ("file", models.CharField(max_length=255)),
                ("line", models.PositiveIntegerField(help_text="from 1; 0 is the file as a whole")),
                ("evidence", models.TextField(blank=True)),
                ("what", models.TextField()),
                (
                    "advice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="findings", to="scheduler.advice"
                    ),
                ),
            ],
            options={
                "ordering": ["advice", "position"],
                "constraints": [models.UniqueConstraint(fields=("advice", "position"), name="one_finding_a_position")],
            },
        ),
        migrations.CreateModel(
            name="BlockingRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=40)),
                ("made_at", scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now())),
                ("reason", models.TextField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="blocking_rules",
                        to="budgets.cluster",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["cluster", "rule"],
                "constraints": [models.UniqueConstraint(fields=("cluster", "rule"), name="a_rule_blocks_once")],
            },
        ),
        migrations.AddField(
            model_name="workload",
            name="advice",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="what the advisor found in its program",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="workloads",
                to="scheduler.advice",
            ),
        ),
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(fields=["advice"], name="workload_advised", condition=models.Q(advice__isnull=False)),
        ),
    ]
