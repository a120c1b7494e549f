import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0006_sending_and_balances"),
        ("scheduler", "0005_places_are_rewritten_in_place"),
    ]

    operations = [
        migrations.CreateModel(
            name="TimelineTile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("width_s", models.PositiveIntegerField()),
                ("day", models.IntegerField()),
                ("rows", models.BinaryField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "width_s", "day"), name="one_tile_of_a_day_and_width"
                    )
                ],
            },
        ),
    ]
