"""Classes of GPUs: what nodes have, and what workloads can run on."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0098_canaries")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="gpu_class",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="what kind of devices it has, such as V100",
                max_length=60,
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="gpu_classes",
            field=ArrayField(
                base_field=models.CharField(max_length=60),
                db_default=[],
                default=list,
                help_text="those that it can run on; none is all",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="needs_fast",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="it tries high-end classes first, by its own word or by the next",
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="efficiency_percent",
            field=models.PositiveSmallIntegerField(
                blank=True, help_text="how much of their GPUs those like it had used, where that decided", null=True
            ),
        ),
    ]
