from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0011_forecasts_in_hindsight")]

    operations = [
        migrations.RemoveIndex(model_name="utilizationhour", name="utilization_window"),
        migrations.AddIndex(
            model_name="utilizationhour",
            index=models.Index(
                fields=["cluster", "hour"],
                include=["run", "measured_milli_s", "busy_milli_s"],
                name="utilization_figures",
            ),
        ),
    ]
