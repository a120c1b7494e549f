"""Messages about one's own password and access tokens."""

from django.db import migrations, models

KINDS = [
    ("to_decide", "something waits for my decision"),
    ("decision", "something of mine was decided"),
    ("comment", "somebody said something to a request of mine"),
    ("budget", "a budget changes, ends, or is nearly used"),
    ("review", "a review meeting"),
    ("workload", "a workload of mine was preempted or has failed"),
    ("follow_up", "a decision is to be looked at again"),
    ("webhook", "a webhook of mine was turned off"),
    ("access", "my password was changed, or an access token of mine ends"),
]


class Migration(migrations.Migration):
    dependencies = [("budgets", "0030_webhooks")]

    operations = [
        migrations.AlterField(model_name=name, name="kind", field=models.CharField(choices=KINDS, max_length=10))
        for name in ("message", "messagechoice")
    ]
