"""Which ranks of a node have not ended: each heartbeat asks, and a node has had thousands."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0045_secrets_at_rest")]

    operations = [
        migrations.AddIndex(
            model_name="rank",
            index=models.Index(
                condition=models.Q(("state__in", ("wanted", "running"))), fields=["node"], name="rank_live"
            ),
        ),
    ]
