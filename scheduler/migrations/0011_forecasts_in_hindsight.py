from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0030_slurm")]

    operations = [
        migrations.AddField(
            model_name="forecast",
            name="looks_back",
            field=models.BooleanField(default=False, help_text="it was made later, with what was known at `at`"),
        ),
        migrations.AddConstraint(
            model_name="forecast",
            constraint=models.UniqueConstraint(
                condition=models.Q(("looks_back", True)),
                fields=("cluster", "at"),
                name="one_look_back_at_an_instant",
            ),
        ),
    ]
