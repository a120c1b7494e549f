from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0010_forecasts")]

    operations = [
        migrations.AddField(
            model_name="saveddirectory",
            name="problem",
            field=models.CharField(blank=True, help_text="why it cannot travel", max_length=200),
        ),
    ]
