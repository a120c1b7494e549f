"""How far the owner of a workload lets it be spread over nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0120_gpu_classes")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="locality",
            field=models.PositiveSmallIntegerField(
                db_default=1,
                default=1,
                help_text="how far its owner lets it be spread, where waiting relaxes that: 0 to 3",
            ),
        ),
        migrations.AddConstraint(
            model_name="workload",
            constraint=models.CheckConstraint(
                condition=models.Q(("locality__lte", 3)), name="workload_locality_is_a_level"
            ),
        ),
        migrations.AlterField(
            model_name="workload",
            name="predicted_s",
            field=models.PositiveIntegerField(
                blank=True, help_text="how long it was thought to execute, where that is asked", null=True
            ),
        ),
    ]
