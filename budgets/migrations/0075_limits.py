"""What budget nodes should, and may, hold at once."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("budgets", "0022_kind_access")]

    operations = [
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("minimum_milli", models.PositiveBigIntegerField(default=0)),
                ("maximum_milli", models.PositiveBigIntegerField(blank=True, null=True)),
                ("factor_milli", models.PositiveIntegerField(default=1000)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="limits", to="budgets.cluster"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="limits", to="budgets.budgetnode"
                    ),
                ),
            ],
            options={
                "ordering": ["node", "cluster"],
                "constraints": [
                    models.UniqueConstraint(fields=("node", "cluster"), name="one_limit_of_a_node"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("maximum_milli__isnull", True),
                            ("maximum_milli__gte", models.F("minimum_milli")),
                            _connector="OR",
                        ),
                        name="minimum_at_most_the_maximum",
                    ),
                    models.CheckConstraint(condition=models.Q(("factor_milli__gte", 1)), name="weight_above_zero"),
                ],
            },
        ),
    ]
