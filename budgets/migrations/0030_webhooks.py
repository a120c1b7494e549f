"""Webhooks: several for a person, those of the organisation, a log of what was posted; their secrets sealed."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import budgets.models.sealed
from budgets.sealing import open_sealed, seal

SECRETS = "budgets.webhook.secret"


def sealed(apps, schema_editor):
    """Seal what is there."""
    rewrite(schema_editor, seal)


def plain(apps, schema_editor):
    """Open it again, for the version before."""
    rewrite(schema_editor, open_sealed)


def rewrite(schema_editor, change):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT id, secret FROM budgets_webhook WHERE secret <> ''")
        for pk, secret in cursor.fetchall():
            cursor.execute("UPDATE budgets_webhook SET secret = %s WHERE id = %s", [change(secret, SECRETS), pk])


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0021_identities"),
    ]

    operations = [
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=160)),
                ("event", models.CharField(max_length=40)),
                ("body", models.TextField()),
                ("made_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("delivered", "Delivered"), ("failed", "Given up")],
                        default="waiting",
                        max_length=9,
                    ),
                ),
                ("tries", models.PositiveSmallIntegerField(default=0, help_text="since it was last to be sent")),
                ("next_try_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="WebhookMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("event_id", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="WebhookTry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                (
                    "status",
                    models.PositiveSmallIntegerField(
                        blank=True, help_text="of the answer; null: there was none", null=True
                    ),
                ),
                ("ms", models.PositiveIntegerField(default=0)),
                ("error", models.CharField(blank=True, max_length=200)),
                ("answer", models.TextField(blank=True, help_text="how the answer begins")),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.AlterModelOptions(
            name="webhook",
            options={"ordering": ["id"]},
        ),
        migrations.AddField(
            model_name="webhook",
            name="delivered_at",
            field=models.DateTimeField(blank=True, help_text="the last success", null=True),
        ),
        migrations.AddField(
            model_name="webhook",
            name="events",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=40),
                blank=True,
                default=list,
                help_text="kinds of messages or events; empty: all",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="webhook",
            name="failures",
            field=models.PositiveIntegerField(default=0, help_text="tries in a row that failed"),
        ),
        migrations.AddField(
            model_name="webhook",
            name="name",
            field=models.CharField(blank=True, max_length=60),
        ),
        migrations.AddField(
            model_name="webhook",
            name="old_secret",
            field=budgets.models.sealed.SealedText(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="webhook",
            name="old_secret_until",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="webhook",
            name="paused_until",
            field=models.DateTimeField(blank=True, help_text="after a failure nothing is tried until then", null=True),
        ),
        migrations.AddField(
            model_name="webhook",
            name="scope",
            field=models.CharField(
                choices=[("person", "my messages"), ("organisation", "what happens in the organisation")],
                default="person",
                max_length=12,
            ),
        ),
        migrations.AddField(
            model_name="webhook",
            name="turned_off_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="webhook",
            name="turned_off_why",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AlterField(
            model_name="message",
            name="kind",
            field=models.CharField(
                choices=[
                    ("to_decide", "something waits for my decision"),
                    ("decision", "something of mine was decided"),
                    ("comment", "somebody said something to a request of mine"),
                    ("budget", "a budget changes, ends, or is nearly used"),
                    ("review", "a review meeting"),
                    ("workload", "a workload of mine was preempted or has failed"),
                    ("follow_up", "a decision is to be looked at again"),
                    ("webhook", "a webhook of mine was turned off"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="messagechoice",
            name="kind",
            field=models.CharField(
                choices=[
                    ("to_decide", "something waits for my decision"),
                    ("decision", "something of mine was decided"),
                    ("comment", "somebody said something to a request of mine"),
                    ("budget", "a budget changes, ends, or is nearly used"),
                    ("review", "a review meeting"),
                    ("workload", "a workload of mine was preempted or has failed"),
                    ("follow_up", "a decision is to be looked at again"),
                    ("webhook", "a webhook of mine was turned off"),
                ],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="webhook",
            name="person",
            field=models.ForeignKey(
                help_text="whose messages; or who set it up",
                on_delete=django.db.models.deletion.CASCADE,
                related_name="webhooks",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="webhook",
            name="secret",
            field=budgets.models.sealed.SealedText(),
        ),
        migrations.AddIndex(
            model_name="webhook",
            index=models.Index(
                condition=models.Q(("scope", "organisation"), ("turned_off_at", None)),
                fields=["scope"],
                name="webhooks_of_all",
            ),
        ),
        migrations.AddField(
            model_name="webhookdelivery",
            name="webhook",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="budgets.webhook"
            ),
        ),
        migrations.AddField(
            model_name="webhookmark",
            name="cluster",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
            ),
        ),
        migrations.AddField(
            model_name="webhookmark",
            name="webhook",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="marks", to="budgets.webhook"
            ),
        ),
        migrations.AddField(
            model_name="webhooktry",
            name="delivery",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="budgets.webhookdelivery"
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(condition=models.Q(("state", "waiting")), fields=["next_try_at"], name="deliveries_due"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["made_at"], name="deliveries_by_age"),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.UniqueConstraint(fields=("webhook", "key"), name="delivered_once"),
        ),
        migrations.AddConstraint(
            model_name="webhookmark",
            constraint=models.UniqueConstraint(fields=("webhook", "cluster"), name="one_mark_of_a_webhook"),
        ),
        migrations.RunPython(sealed, plain),
        # Whoever writes there, and however: nothing that is not sealed gets in.
        migrations.RunSQL(
            """
            SET CONSTRAINTS ALL IMMEDIATE;
            ALTER TABLE budgets_webhook ADD CONSTRAINT webhook_secrets_are_sealed CHECK (
                secret LIKE 'sealed1:%' AND (old_secret = '' OR old_secret LIKE 'sealed1:%')
            );
            """,
            "ALTER TABLE budgets_webhook DROP CONSTRAINT webhook_secrets_are_sealed;",
        ),
    ]
