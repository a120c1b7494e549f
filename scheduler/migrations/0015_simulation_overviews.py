from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0008_utilization_figures")]

    operations = [
        migrations.AddField(
            model_name="simulationpart",
            name="overview",
            field=models.BinaryField(help_text="its timeline at first sight, where it has very many runs", null=True),
        ),
    ]
