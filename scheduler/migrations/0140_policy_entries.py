"""Which entry of the ledger says why a policy was changed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0110_locality")]

    operations = [
        migrations.AddField(
            model_name="policyversion",
            name="entry_id",
            field=models.BigIntegerField(help_text="of the ledger; null for the system", null=True),
        ),
    ]
