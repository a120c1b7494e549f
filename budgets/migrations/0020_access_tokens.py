"""Access tokens of people."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SCOPES = [
    ("read", "look, and change nothing"),
    ("submit", "submit and cancel workloads, simulate"),
    ("operate", "operate clusters and nodes"),
    ("decide", "ask for, propose and decide shares and roles"),
]


class Migration(migrations.Migration):
    dependencies = [("budgets", "0011_slurm_executors")]

    operations = [
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="what its person calls it", max_length=60)),
                (
                    "prefix",
                    models.CharField(
                        help_text="its first characters, by which people tell it from others", max_length=16
                    ),
                ),
                ("digest", models.CharField(help_text="the keyed hash of the secret", max_length=64, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(choices=SCOPES, max_length=8), size=None
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, help_text="to the minute", null=True)),
                ("ended_at", models.DateTimeField(blank=True, help_text="revoked before its end", null=True)),
                (
                    "ended_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))), name="token_dates_in_order"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("scopes__contained_by", ["read", "submit", "operate", "decide"]), ("scopes__len__gt", 0)
                        ),
                        name="token_has_known_scopes",
                    ),
                ],
            },
        ),
    ]
