import json

from django.db import migrations

import budgets.models.sealed
from budgets.sealing import open_sealed, seal

WORKLOADS, HOOKS = "scheduler.workload.secrets", "scheduler.repairhook.secret"


def sealed(apps, schema_editor):
    """Seal what is there."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT id, secrets FROM scheduler_workload WHERE secrets <> '{}'")
        for pk, stored in cursor.fetchall():
            texts = json.loads(stored) if isinstance(stored, str) else stored
            texts = {name: seal(str(text), WORKLOADS) for name, text in texts.items()}
            cursor.execute("UPDATE scheduler_workload SET secrets = %s WHERE id = %s", [json.dumps(texts), pk])
        cursor.execute("SELECT id, secret FROM scheduler_repairhook WHERE secret <> ''")
        for pk, secret in cursor.fetchall():
            cursor.execute("UPDATE scheduler_repairhook SET secret = %s WHERE id = %s", [seal(secret, HOOKS), pk])


def plain(apps, schema_editor):
    """Open it again, for the version before."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT id, secrets FROM scheduler_workload WHERE secrets <> '{}'")
        for pk, stored in cursor.fetchall():
            texts = json.loads(stored) if isinstance(stored, str) else stored
            texts = {name: open_sealed(text, WORKLOADS) for name, text in texts.items()}
            cursor.execute("UPDATE scheduler_workload SET secrets = %s WHERE id = %s", [json.dumps(texts), pk])
        cursor.execute("SELECT id, secret FROM scheduler_repairhook WHERE secret <> ''")
        for pk, secret in cursor.fetchall():
            cursor.execute("UPDATE scheduler_repairhook SET secret = %s WHERE id = %s", [open_sealed(secret, HOOKS), pk])


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0040_emergency_stops")]

    operations = [
        migrations.AlterField(
            model_name="repairhook",
            name="secret",
            field=budgets.models.sealed.SealedText(blank=True, help_text="signs what is posted"),
        ),
        migrations.AlterField(
            model_name="workload",
            name="secrets",
            field=budgets.models.sealed.SealedTexts(
                default=dict, help_text="variables that nobody is shown; gone when it has ended"
            ),
        ),
        migrations.RunPython(sealed, plain),
        # Whoever writes there, and however: nothing that is not sealed gets in.
        migrations.RunSQL(
            """
            SET CONSTRAINTS ALL IMMEDIATE;
            ALTER TABLE scheduler_workload ADD CONSTRAINT secrets_are_sealed CHECK (
                jsonb_typeof(secrets) = 'object' AND NOT jsonb_path_exists(secrets, '$.* ? (!(@ starts with "sealed1:"))')
            );
            ALTER TABLE scheduler_repairhook ADD CONSTRAINT repair_secret_is_sealed CHECK (
                secret = '' OR secret LIKE 'sealed1:%'
            );
            """,
            """
            ALTER TABLE scheduler_workload DROP CONSTRAINT secrets_are_sealed;
            ALTER TABLE scheduler_repairhook DROP CONSTRAINT repair_secret_is_sealed;
            """,
        ),
    ]
