"""Who people are to an OpenID provider, and the roles that its groups give them."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("budgets", "0025_kept_answers")]

    operations = [
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.URLField(max_length=300)),
                ("subject", models.CharField(max_length=255)),
                ("linked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "seen_at",
                    models.DateTimeField(blank=True, help_text="when they last signed in by it", null=True),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_for_a_subject"),
                    models.UniqueConstraint(fields=("issuer", "person"), name="one_subject_for_a_person"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClaimedRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.CharField(max_length=255)),
                (
                    "grant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="claimed", to="budgets.rolegrant"
                    ),
                ),
                (
                    "identity",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="roles", to="budgets.identity"
                    ),
                ),
            ],
        ),
    ]
