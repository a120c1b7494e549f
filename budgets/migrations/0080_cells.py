"""Whole nodes and racks that are a budget node's own."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("budgets", "0075_limits")]

    operations = [
        migrations.CreateModel(
            name="CellGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.CharField(choices=[("node", "whole node"), ("rack", "rack")], max_length=8)),
                ("count", models.PositiveIntegerField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="cell_grants", to="budgets.cluster"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="cell_grants", to="budgets.budgetnode"
                    ),
                ),
            ],
            options={
                "ordering": ["node", "cluster", "level"],
                "constraints": [
                    models.UniqueConstraint(fields=("node", "cluster", "level"), name="one_grant_of_a_level"),
                    models.CheckConstraint(
                        condition=models.Q(("level__in", ["node", "rack"])), name="cells_of_a_known_level"
                    ),
                    models.CheckConstraint(condition=models.Q(("count__gte", 1)), name="at_least_one_cell"),
                ],
            },
        ),
    ]
