"""Answers to requests that may be sent again."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("budgets", "0020_access_tokens")]

    operations = [
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=100)),
                ("route", models.CharField(help_text="method and path", max_length=300)),
                ("digest", models.CharField(help_text="keyed hash of what was sent, and where", max_length=64)),
                (
                    "status",
                    models.PositiveSmallIntegerField(blank=True, help_text="null only while it is answered", null=True),
                ),
                ("headers", models.JSONField(default=dict)),
                ("body", models.JSONField(blank=True, null=True)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["made_at"], name="kept_answer_age")],
                "constraints": [models.UniqueConstraint(fields=("person", "key"), name="answered_once")],
            },
        ),
    ]
