"""All migrations up to 0120 and 0110 in one, for a new database; what the database enforces whoever writes is at its end."""

import budgets.models.ranges
import budgets.models.sealed
import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import scheduler.models.fields
from django.conf import settings
from django.db import migrations, models

from budgets.at_once import CreateModels

HOLDINGS_AND_EVENTS = """
CREATE FUNCTION scheduler_holding_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Statement-level, over the changed rows: a gang of a thousand devices is one update.
    WITH change AS (
        SELECT device_id, sum(milli) AS milli FROM (
            SELECT device_id, milli FROM after_rows WHERE released_at IS NULL
            UNION ALL
            SELECT device_id, -milli FROM before_rows WHERE released_at IS NULL
        ) rows GROUP BY device_id HAVING sum(milli) <> 0
    ), locked AS (
        -- In one order, so that two gangs never wait for each other.
        SELECT d.id FROM scheduler_device d JOIN change c ON c.device_id = d.id ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE scheduler_device d SET held_milli = d.held_milli + c.milli
    FROM change c, locked l WHERE d.id = c.device_id AND l.id = d.id;
    RETURN NULL;
END $$;
CREATE FUNCTION scheduler_holding_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH change AS (
        SELECT device_id, sum(milli) AS milli FROM after_rows WHERE released_at IS NULL GROUP BY device_id
    ), locked AS (
        SELECT d.id FROM scheduler_device d JOIN change c ON c.device_id = d.id ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE scheduler_device d SET held_milli = d.held_milli + c.milli
    FROM change c, locked l WHERE d.id = c.device_id AND l.id = d.id;
    RETURN NULL;
END $$;
CREATE FUNCTION scheduler_holding_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE scheduler_device d SET held_milli = d.held_milli - c.milli
    FROM (SELECT device_id, sum(milli) AS milli FROM before_rows WHERE released_at IS NULL GROUP BY device_id) c
    WHERE d.id = c.device_id;
    RETURN NULL;
END $$;
CREATE TRIGGER holdings_added AFTER INSERT ON scheduler_holding
    REFERENCING NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION scheduler_holding_added();
CREATE TRIGGER holdings_changed AFTER UPDATE ON scheduler_holding
    REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION scheduler_holding_sum();
CREATE TRIGGER holdings_gone AFTER DELETE ON scheduler_holding
    REFERENCING OLD TABLE AS before_rows FOR EACH STATEMENT EXECUTE FUNCTION scheduler_holding_gone();

CREATE TRIGGER events_only_grow BEFORE UPDATE OR DELETE ON scheduler_event
    FOR EACH ROW EXECUTE FUNCTION allotment_append_only();
CREATE TRIGGER events_are_not_emptied BEFORE TRUNCATE ON scheduler_event
    FOR EACH STATEMENT EXECUTE FUNCTION allotment_append_only();
"""

SECRETS = """
ALTER TABLE scheduler_workload ADD CONSTRAINT secrets_are_sealed CHECK (
    jsonb_typeof(secrets) = 'object' AND NOT jsonb_path_exists(secrets, '$.* ? (!(@ starts with "sealed1:"))')
);
ALTER TABLE scheduler_repairhook ADD CONSTRAINT repair_secret_is_sealed CHECK (
    secret = '' OR secret LIKE 'sealed1:%'
);
"""

PLACES = """
ALTER TABLE scheduler_workload SET (fillfactor = 60);
"""

NO_HOLDINGS_AND_EVENTS = """
DROP TRIGGER events_are_not_emptied ON scheduler_event;
DROP TRIGGER events_only_grow ON scheduler_event;
DROP FUNCTION scheduler_holding_gone() CASCADE;
DROP FUNCTION scheduler_holding_added() CASCADE;
DROP FUNCTION scheduler_holding_sum() CASCADE;
"""

NO_SECRETS = """
ALTER TABLE scheduler_workload DROP CONSTRAINT secrets_are_sealed;
ALTER TABLE scheduler_repairhook DROP CONSTRAINT repair_secret_is_sealed;
"""

NO_PLACES = """
ALTER TABLE scheduler_workload RESET (fillfactor);
"""


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("scheduler", "0001_initial"),
        ("scheduler", "0002_rules_in_the_database"),
        ("scheduler", "0003_workload_numbers"),
        ("scheduler", "0004_simulations"),
        ("scheduler", "0005_places_are_rewritten_in_place"),
        ("scheduler", "0006_timeline_tiles"),
        ("scheduler", "0007_utilization"),
        ("scheduler", "0008_utilization_figures"),
        ("scheduler", "0010_forecasts"),
        ("scheduler", "0011_forecasts_in_hindsight"),
        ("scheduler", "0015_simulation_overviews"),
        ("scheduler", "0020_execution"),
        ("scheduler", "0021_directories_that_cannot_travel"),
        ("scheduler", "0030_slurm"),
        ("scheduler", "0040_emergency_stops"),
        ("scheduler", "0041_latest_workloads"),
        ("scheduler", "0045_secrets_at_rest"),
        ("scheduler", "0055_live_ranks"),
        ("scheduler", "0060_predicted"),
        ("scheduler", "0070_first_starts"),
        ("scheduler", "0080_waiting_after_a_run"),
        ("scheduler", "0081_throughput"),
        ("scheduler", "0085_advice"),
        ("scheduler", "0090_policies_over_seeds"),
        ("scheduler", "0093_rails_and_leaves"),
        ("scheduler", "0094_time_shifts"),
        ("scheduler", "0097_failures"),
        ("scheduler", "0098_canaries"),
        ("scheduler", "0110_locality"),
        ("scheduler", "0120_gpu_classes"),
    ]

    dependencies = [
        ("budgets", "0001_squashed_0080_cells"),
        ("budgets", "__first__"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="PortalEpoch",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.BigIntegerField()),
                    ],
                ),
                migrations.CreateModel(
                    name="WorkloadNumber",
                    fields=[
                        ("leaf_code", models.CharField(max_length=16, primary_key=True, serialize=False)),
                        ("last", models.PositiveIntegerField()),
                    ],
                ),
                migrations.CreateModel(
                    name="Advice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("read_at", scheduler.models.fields.SecondField()),
                        (
                            "files",
                            models.PositiveIntegerField(
                                help_text="given with the submission; 0: its command alone was read"
                            ),
                        ),
                        (
                            "overrode",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=40),
                                default=list,
                                help_text="rules that refuse it, but not an operator",
                                size=None,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["cluster", "read_at"], name="advice_of_cluster")],
                    },
                ),
                migrations.CreateModel(
                    name="AdviceFinding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.PositiveIntegerField()),
                        ("rule", models.CharField(max_length=40)),
                        ("severity", models.CharField(max_length=8)),
                        ("file", models.CharField(max_length=255)),
                        ("line", models.PositiveIntegerField(help_text="from 1; 0 is the file as a whole")),
                        ("evidence", models.TextField(blank=True)),
                        ("what", models.TextField()),
                        (
                            "advice",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="findings",
                                to="scheduler.advice",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["advice", "position"],
                        "constraints": [
                            models.UniqueConstraint(fields=("advice", "position"), name="one_finding_a_position")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BlockingRule",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("rule", models.CharField(max_length=40)),
                        (
                            "made_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("reason", models.TextField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="blocking_rules",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "made_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "rule"],
                        "constraints": [models.UniqueConstraint(fields=("cluster", "rule"), name="a_rule_blocks_once")],
                    },
                ),
                migrations.CreateModel(
                    name="ClusterHour",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("hour", scheduler.models.fields.SecondField()),
                        ("capacity_milli_s", models.BigIntegerField(default=0)),
                        ("healthy_milli_s", models.BigIntegerField(default=0)),
                        ("held_milli_s", models.BigIntegerField(default=0)),
                        ("held_unfit_milli_s", models.BigIntegerField(default=0)),
                        ("uncharged_milli_s", models.BigIntegerField(default=0)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "hour"), name="one_cluster_row_per_hour")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DevicePeak",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "gflops",
                            models.PositiveBigIntegerField(
                                help_text="10^9 operations a second, with 16-bit numbers, without sparsity"
                            ),
                        ),
                        (
                            "said_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="device_peak",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "said_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("gflops__gt", 0)), name="a_device_does_something"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EmergencyStop",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("started_at", scheduler.models.fields.SecondField()),
                        ("reason", models.CharField(max_length=200)),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("end_reason", models.CharField(blank=True, max_length=200)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="emergency_stops",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "ended_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "started_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)),
                                fields=("cluster",),
                                name="stopped_once_at_a_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ended_at__isnull", True),
                                    ("ended_at__gte", models.F("started_at")),
                                    _connector="OR",
                                ),
                                name="stop_ends_after_it_began",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Forecast",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("running", "Running"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                ],
                                default="waiting",
                                max_length=8,
                            ),
                        ),
                        (
                            "asked_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="the instant whose state it begins with", null=True
                            ),
                        ),
                        ("horizon_s", models.PositiveIntegerField(default=0)),
                        ("draws", models.PositiveSmallIntegerField(default=0)),
                        ("draws_wanted", models.PositiveSmallIntegerField(default=0)),
                        (
                            "touched_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="a sign of life of the worker that makes it", null=True
                            ),
                        ),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("took_ms", models.PositiveIntegerField(blank=True, null=True)),
                        ("error", models.CharField(blank=True, max_length=300)),
                        (
                            "looks_back",
                            models.BooleanField(
                                default=False, help_text="it was made later, with what was known at `at`"
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="forecasts",
                                to="budgets.cluster",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [models.Index(fields=["cluster", "-id"], name="forecast_latest")],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state__in", ("waiting", "running"))),
                                fields=("cluster",),
                                name="one_forecast_at_a_time",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("looks_back", True)),
                                fields=("cluster", "at"),
                                name="one_look_back_at_an_instant",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("ended_at__isnull", True), ("state__in", ("waiting", "running"))),
                                    models.Q(("ended_at__isnull", False), ("state__in", ("finished", "failed"))),
                                    _connector="OR",
                                ),
                                name="forecast_ends_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Node",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=60)),
                        (
                            "rail",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="which leaves its own belongs to",
                                max_length=60,
                            ),
                        ),
                        (
                            "leaf",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="the switch that it is wired to",
                                max_length=60,
                            ),
                        ),
                        ("cpu_milli", models.PositiveBigIntegerField(default=0)),
                        ("memory_mib", models.PositiveBigIntegerField(default=0)),
                        (
                            "gpu_class",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="what kind of devices it has, such as V100",
                                max_length=60,
                            ),
                        ),
                        (
                            "health",
                            models.CharField(
                                choices=[
                                    ("healthy", "Healthy"),
                                    ("unhealthy", "Unhealthy"),
                                    ("unreachable", "Unreachable"),
                                    ("down", "Down"),
                                ],
                                default="healthy",
                                max_length=12,
                            ),
                        ),
                        (
                            "healthy_since",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="start of the dwell; null: fit since ever", null=True
                            ),
                        ),
                        (
                            "drain_asked_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="an operator asked for a drain", null=True
                            ),
                        ),
                        ("drain_reason", models.CharField(blank=True, max_length=200)),
                        ("retired_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("heartbeat_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "wake_url",
                            models.URLField(
                                blank=True, help_text="the agent's wake-up address, where it can be reached"
                            ),
                        ),
                        (
                            "token_hash",
                            models.CharField(blank=True, help_text="of the agent's own token", max_length=128),
                        ),
                        (
                            "agent_epoch",
                            models.BigIntegerField(
                                default=0, help_text="of the last start of its agent that was heard"
                            ),
                        ),
                        (
                            "trouble",
                            models.CharField(
                                blank=True, help_text="what is wrong, as its agent or a person said", max_length=300
                            ),
                        ),
                        (
                            "trouble_by",
                            models.CharField(
                                blank=True, choices=[("agent", "agent"), ("person", "person")], max_length=8
                            ),
                        ),
                        (
                            "taken_milli",
                            models.PositiveBigIntegerField(
                                default=0, help_text="held by what is not ours: a Slurm's other jobs"
                            ),
                        ),
                        ("version", models.PositiveIntegerField(default=1)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="nodes", to="budgets.cluster"
                            ),
                        ),
                        (
                            "rack",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="nodes",
                                to="scheduler.rack",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="node_names_are_unique")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MaintenanceWindow",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("starts_at", scheduler.models.fields.SecondField()),
                        ("ends_at", scheduler.models.fields.SecondField()),
                        ("reason", models.CharField(blank=True, max_length=200)),
                        ("cancelled_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "made_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="windows", to="scheduler.node"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["starts_at"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="window_in_order"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="JoinToken",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "node_name",
                            models.CharField(
                                blank=True, help_text="the only node it is for; empty is any", max_length=60
                            ),
                        ),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("made_at", scheduler.models.fields.SecondField()),
                        ("expires_at", scheduler.models.fields.SecondField()),
                        ("used_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "used_with",
                            models.CharField(
                                blank=True, help_text="hash of the agent's own token: it may try again", max_length=64
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="join_tokens",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "used_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="scheduler.node",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("used_at__isnull", True), ("used_by__isnull", True)),
                                    models.Q(("used_at__isnull", False), ("used_by__isnull", False)),
                                    _connector="OR",
                                ),
                                name="join_token_used_by_a_node",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Device",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("index", models.PositiveSmallIntegerField()),
                        ("uuid", models.CharField(blank=True, max_length=80)),
                        ("held_milli", models.PositiveIntegerField(default=0)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="devices", to="scheduler.node"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "index"],
                        "constraints": [
                            models.UniqueConstraint(fields=("node", "index"), name="device_indexes_are_unique"),
                            models.CheckConstraint(
                                condition=models.Q(("held_milli__gte", 0), ("held_milli__lte", 1000)),
                                name="device_held_at_most_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="NodeSpell",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("healthy", "Healthy"),
                                    ("draining", "Draining"),
                                    ("unreachable", "Unreachable"),
                                    ("down", "Down"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("started_at", scheduler.models.fields.SecondField()),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="spells", to="scheduler.node"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "started_at"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ended_at__isnull", True),
                                    ("ended_at__gte", models.F("started_at")),
                                    _connector="OR",
                                ),
                                name="spell_in_order",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (scheduler.models.fields.TimestampRange("started_at", "ended_at"), "&&"),
                                ],
                                name="one_spell_at_a_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PolicyVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("knobs", models.JSONField(default=dict)),
                        (
                            "made_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("reason", models.TextField(blank=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="policies",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "made_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "-number"],
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "number"), name="policy_numbers_are_unique")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Pass",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", scheduler.models.fields.SecondField()),
                        ("event_mark", models.BigIntegerField()),
                        ("engine_version", models.CharField(max_length=20)),
                        (
                            "order",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                default=list,
                                help_text="waiting workloads as considered, at most 200",
                                size=None,
                            ),
                        ),
                        (
                            "figures",
                            models.JSONField(default=dict, help_text="the numbers by budget node that made the order"),
                        ),
                        (
                            "shadow",
                            models.JSONField(
                                help_text="what it decided where nothing is carried out; null: it was", null=True
                            ),
                        ),
                        ("load_ms", models.PositiveIntegerField(default=0)),
                        ("decide_ms", models.PositiveIntegerField(default=0)),
                        ("apply_ms", models.PositiveIntegerField(default=0)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="passes", to="budgets.cluster"
                            ),
                        ),
                        (
                            "policy",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="scheduler.policyversion",
                            ),
                        ),
                        (
                            "tree",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="scheduler.treeversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [models.Index(fields=["cluster", "-id"], name="pass_latest")],
                    },
                ),
                migrations.CreateModel(
                    name="Rack",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=60)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="racks", to="budgets.cluster"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="rack_names_are_unique")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rank",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("index", models.PositiveIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("wanted", "Wanted"),
                                    ("running", "Running"),
                                    ("exited", "Exited"),
                                    ("failed", "could not start"),
                                    ("gone", "given up: its node is lost"),
                                ],
                                default="wanted",
                                max_length=8,
                            ),
                        ),
                        ("pid", models.PositiveIntegerField(blank=True, null=True)),
                        ("began_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("exited_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "exit_code",
                            models.IntegerField(blank=True, help_text="minus the signal where one ended it", null=True),
                        ),
                        ("message", models.CharField(blank=True, max_length=300)),
                        ("saved", models.BooleanField(help_text="its save command ended well", null=True)),
                        ("checkpoint_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="ranks", to="scheduler.node"
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="ranks", to="scheduler.run"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["run", "index"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state__in", ("wanted", "running"))),
                                fields=["node"],
                                name="rank_live",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "index"), name="rank_indexes_are_unique"),
                            models.UniqueConstraint(fields=("run", "node"), name="one_rank_a_node"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LogChunk",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("offset", models.PositiveBigIntegerField()),
                        ("length", models.PositiveIntegerField()),
                        ("text", models.TextField()),
                        (
                            "rank",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="chunks", to="scheduler.rank"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["rank", "offset"],
                        "constraints": [
                            models.UniqueConstraint(fields=("rank", "offset"), name="log_chunks_are_unique")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Repair",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("cause", models.CharField(max_length=300)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("draining", "empties by contract"),
                                    ("repairing", "Repairing"),
                                    ("checking", "watched until it has stayed healthy"),
                                    ("person", "needs a person"),
                                    ("done", "back to work"),
                                ],
                                default="draining",
                                max_length=10,
                            ),
                        ),
                        ("began_at", scheduler.models.fields.SecondField()),
                        ("drained_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        (
                            "hook_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="start of the last attempt", null=True
                            ),
                        ),
                        ("hook_ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "message",
                            models.CharField(blank=True, help_text="what the last attempt said", max_length=300),
                        ),
                        ("healthy_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("needed_person", models.BooleanField(default=False)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="repairs", to="scheduler.node"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "began_at"],
                        "indexes": [models.Index(fields=["began_at"], name="repair_began")],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("node",),
                                name="one_repair_at_a_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("ended_at__isnull", False), ("state", "done")),
                                    models.Q(models.Q(("state", "done"), _negated=True), ("ended_at__isnull", True)),
                                    _connector="OR",
                                ),
                                name="repair_done_has_an_end",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RepairHook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("node", "the node's agent runs its own repair command"),
                                    ("portal", "a worker of the portal runs a command"),
                                    ("webhook", "something is posted to an address"),
                                ],
                                max_length=8,
                            ),
                        ),
                        (
                            "command",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                default=list,
                                help_text="argument list; {node} stands for the name",
                                size=None,
                            ),
                        ),
                        ("url", models.CharField(blank=True, max_length=300)),
                        ("secret", budgets.models.sealed.SealedText(blank=True, help_text="signs what is posted")),
                        ("attempts", models.PositiveSmallIntegerField(default=2, help_text="then a person is called")),
                        (
                            "timeout_s",
                            models.PositiveIntegerField(default=1800, help_text="until the node must be well again"),
                        ),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="repair_hook",
                                to="budgets.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("attempts__gte", 1), ("timeout_s__gte", 1)), name="repair_is_tried"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RolloutStep",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("contracts", "contracts decide"),
                                    ("shadow", "decided and shown, not carried out"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("starts_at", scheduler.models.fields.SecondField()),
                        (
                            "made_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("reason", models.TextField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rollout",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "made_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "starts_at", "pk"],
                        "indexes": [models.Index(fields=["cluster", "starts_at"], name="rollout_of_cluster")],
                    },
                ),
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField(help_text="1 for the first run of its workload")),
                        (
                            "path",
                            django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                        ),
                        ("size_milli", models.PositiveBigIntegerField(help_text="held, with the rest of whole nodes")),
                        ("funded", models.BooleanField()),
                        ("min_runtime_s", models.PositiveIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("starting", "Starting"),
                                    ("running", "Running"),
                                    ("leaving", "Leaving"),
                                    ("unreachable", "Unreachable"),
                                    ("ended", "Ended"),
                                ],
                                default="starting",
                                max_length=12,
                            ),
                        ),
                        ("started_at", scheduler.models.fields.SecondField()),
                        (
                            "running_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="every rank runs: the contract begins", null=True
                            ),
                        ),
                        ("contract_ends_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("stop_asked_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "leave_by",
                            scheduler.models.fields.SecondField(blank=True, help_text="end of its grace", null=True),
                        ),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "end_reason",
                            models.CharField(
                                blank=True, help_text="finished, failed, cancelled or a reason code", max_length=40
                            ),
                        ),
                        ("exit_code", models.IntegerField(blank=True, null=True)),
                        (
                            "saved",
                            models.BooleanField(
                                help_text="every rank's save command ended well; null: it has none", null=True
                            ),
                        ),
                        (
                            "checkpoint_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="of its last checkpoint, as far as it is known", null=True
                            ),
                        ),
                        (
                            "lost_s",
                            models.PositiveIntegerField(
                                help_text="worked since its last checkpoint, and lost; null: unknown", null=True
                            ),
                        ),
                        (
                            "time_shift",
                            models.JSONField(
                                blank=True, help_text="its place on the network beside others' iterations", null=True
                            ),
                        ),
                        (
                            "failure_due_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="it failed: from then on it is judged why", null=True
                            ),
                        ),
                        (
                            "failure_class",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="why it failed (scheduler.failures)",
                                max_length=20,
                            ),
                        ),
                        (
                            "failure_line",
                            models.TextField(blank=True, db_default="", default="", help_text="printed, and says so"),
                        ),
                        (
                            "failure_signature",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="the same without what varies",
                                max_length=200,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="budgets.cluster"
                            ),
                        ),
                        (
                            "leaf",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "started_in",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="scheduler.pass",
                            ),
                        ),
                        (
                            "preempted_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="took_from",
                                to="scheduler.workload",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["workload", "number"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "ended"), _negated=True),
                                fields=["cluster"],
                                name="run_not_ended",
                            ),
                            models.Index(
                                fields=["cluster", "ended_at"], include=("started_at", "funded"), name="run_window"
                            ),
                            django.contrib.postgres.indexes.GinIndex(fields=["path"], name="run_path"),
                            models.Index(
                                condition=models.Q(("failure_due_at__isnull", False)),
                                fields=["failure_due_at"],
                                name="run_unjudged",
                            ),
                            models.Index(
                                condition=models.Q(("failure_class", ""), _negated=True),
                                fields=["cluster", "ended_at"],
                                name="run_failures",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("workload", "number"), name="run_numbers_are_unique"),
                            models.UniqueConstraint(
                                condition=models.Q(("state", "ended"), _negated=True),
                                fields=("workload",),
                                name="one_run_at_a_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("ended_at__isnull", False), ("state", "ended")),
                                    models.Q(models.Q(("state", "ended"), _negated=True), ("ended_at__isnull", True)),
                                    _connector="OR",
                                ),
                                name="run_ends_once",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ended_at__isnull", True),
                                    ("ended_at__gte", models.F("started_at")),
                                    _connector="OR",
                                ),
                                name="run_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("funded", False), ("min_runtime_s__gt", 0), _connector="OR"),
                                name="funded_has_a_contract",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Holding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("milli", models.PositiveIntegerField()),
                        ("released_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="holdings",
                                to="scheduler.device",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="holdings",
                                to="scheduler.node",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="holdings", to="scheduler.run"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("released_at__isnull", True)), fields=["node"], name="holding_now"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "device"), name="a_run_holds_a_device_once"),
                            models.CheckConstraint(
                                condition=models.Q(("milli__gte", 1), ("milli__lte", 1000)),
                                name="holding_of_one_device",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Simulation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("comparison", "policies side by side"),
                                    ("what_if", "what if the shares were others"),
                                    ("sweep", "a knob swept"),
                                    ("policies", "policies compared over seeds"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("title", models.CharField(max_length=160)),
                        (
                            "made_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "action",
                            models.CharField(
                                blank=True, help_text="one-use id of the form that asked for it", max_length=32
                            ),
                        ),
                        (
                            "from_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="second 0 of the scenario, where it is history", null=True
                            ),
                        ),
                        ("until_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("asked", models.JSONField(default=dict)),
                        ("scenario", models.BinaryField(null=True)),
                        ("measured", models.JSONField(null=True)),
                        (
                            "notes",
                            models.JSONField(
                                default=list, help_text="sentences: what the scenario could not keep of the history"
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("running", "Running"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                    ("cancelled", "Cancelled"),
                                ],
                                default="waiting",
                                max_length=12,
                            ),
                        ),
                        ("error", models.CharField(blank=True, max_length=300)),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="simulations",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "made_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="simulations",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                help_text="a what-if changes its split",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["made_by", "-id"], name="simulation_of_person"),
                            models.Index(
                                condition=models.Q(("state__in", ("waiting", "running"))),
                                fields=["state"],
                                name="simulation_open",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("ended_at__isnull", True), ("state__in", ("waiting", "running"))),
                                    models.Q(
                                        ("ended_at__isnull", False), ("state__in", ("finished", "failed", "cancelled"))
                                    ),
                                    _connector="OR",
                                ),
                                name="simulation_ends_once",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("action", ""), _negated=True),
                                fields=("made_by", "action"),
                                name="simulation_asked_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SimulationPart",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField(help_text="in the order in which they are shown")),
                        ("name", models.CharField(max_length=120)),
                        ("change", models.JSONField(default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("running", "Running"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                    ("cancelled", "Cancelled"),
                                ],
                                default="waiting",
                                max_length=12,
                            ),
                        ),
                        ("progress_percent", models.PositiveSmallIntegerField(default=0)),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        (
                            "sent_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="its task was last sent to the workers", null=True
                            ),
                        ),
                        ("started_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "touched_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="a sign of life of the worker that runs it", null=True
                            ),
                        ),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("took_ms", models.PositiveIntegerField(blank=True, null=True)),
                        ("error", models.CharField(blank=True, max_length=300)),
                        ("figures", models.JSONField(null=True)),
                        ("runs", models.BinaryField(null=True)),
                        (
                            "overview",
                            models.BinaryField(
                                help_text="its timeline at first sight, where it has very many runs", null=True
                            ),
                        ),
                        (
                            "simulation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="parts",
                                to="scheduler.simulation",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["simulation", "number"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("simulation", "number"), name="simulation_parts_are_numbered"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("progress_percent__lte", 100)), name="part_progress_is_a_percentage"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("ended_at__isnull", True), ("state__in", ("waiting", "running"))),
                                    models.Q(
                                        ("ended_at__isnull", False), ("state__in", ("finished", "failed", "cancelled"))
                                    ),
                                    _connector="OR",
                                ),
                                name="part_ends_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SlurmAccount",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=60)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_accounts",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_accounts",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("cluster", "name"), name="slurm_account_of_one_node"),
                            models.UniqueConstraint(fields=("cluster", "node"), name="one_slurm_account_a_node"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SlurmLink",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "conf",
                            models.CharField(
                                blank=True, help_text="path of slurm.conf; empty: Slurm's own default", max_length=300
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                blank=True, help_text="the cluster's name in Slurm's accounting", max_length=60
                            ),
                        ),
                        (
                            "partition",
                            models.CharField(
                                blank=True, help_text="whose nodes count; empty: all, and the default", max_length=60
                            ),
                        ),
                        ("qos", models.CharField(blank=True, max_length=60)),
                        (
                            "folder",
                            models.CharField(
                                blank=True, help_text="where workloads have their directories, on nodes", max_length=300
                            ),
                        ),
                        (
                            "run_as_owner",
                            models.BooleanField(default=False, help_text="jobs run as their owner's Unix user"),
                        ),
                        (
                            "writes",
                            models.BooleanField(
                                default=False, help_text="off: nothing is changed in Slurm, only shown"
                            ),
                        ),
                        (
                            "held_ahead",
                            models.PositiveIntegerField(
                                default=200, help_text="waiting workloads that are held jobs already"
                            ),
                        ),
                        ("token", models.CharField(max_length=40, unique=True)),
                        ("tried_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "contact_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="the last whole look at it", null=True
                            ),
                        ),
                        ("failing_since", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "error",
                            models.CharField(
                                blank=True, help_text="why the last look failed, in one line", max_length=400
                            ),
                        ),
                        (
                            "plan",
                            models.JSONField(
                                default=list, help_text="commands of the last look that were not carried out"
                            ),
                        ),
                        ("troubles", models.JSONField(default=list, help_text="what Slurm refused, in words")),
                        ("foreign", models.JSONField(default=list, help_text="jobs of others that hold nodes")),
                        (
                            "silent",
                            models.JSONField(
                                default=dict, help_text="nodes that do not answer, with the second since when"
                            ),
                        ),
                        (
                            "drift",
                            models.JSONField(default=list, help_text="where the account tree differs from the shares"),
                        ),
                        ("drift_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "usage_until",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="jobs that ended before have been read", null=True
                            ),
                        ),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE, related_name="slurm", to="budgets.cluster"
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="SlurmOrder",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("asked_at", scheduler.models.fields.SecondField()),
                        (
                            "outcome",
                            models.CharField(
                                choices=[("waiting", "waiting"), ("done", "done"), ("failed", "failed")],
                                default="waiting",
                                max_length=8,
                            ),
                        ),
                        ("done_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("commands", models.JSONField(default=list, help_text="what was done, as typed")),
                        ("message", models.CharField(blank=True, max_length=400)),
                        (
                            "asked_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_orders",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-pk"],
                    },
                ),
                migrations.CreateModel(
                    name="ThroughputReport",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", scheduler.models.fields.SecondField(help_text="the end of that time")),
                        ("tokens", models.PositiveBigIntegerField()),
                        ("span_ms", models.PositiveBigIntegerField()),
                        ("parameters", models.PositiveBigIntegerField(help_text="of the model")),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="throughput",
                                to="scheduler.run",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["run", "at"],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "at"), name="one_throughput_report_a_second"),
                            models.CheckConstraint(
                                condition=models.Q(("parameters__gt", 0), ("span_ms__gt", 0)),
                                name="throughput_over_some_time_of_some_model",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TimelineTile",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("width_s", models.PositiveIntegerField()),
                        ("day", models.IntegerField()),
                        ("rows", models.BinaryField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "width_s", "day"), name="one_tile_of_a_day_and_width"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TreeVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                        ("nodes", models.JSONField()),
                        (
                            "made_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tree_versions",
                                to="budgets.cluster",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [models.UniqueConstraint(fields=("cluster", "digest"), name="one_row_per_tree")],
                    },
                ),
                migrations.CreateModel(
                    name="UsageHour",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("hour", scheduler.models.fields.SecondField()),
                        ("charged_milli_s", models.BigIntegerField(default=0)),
                        ("uncharged_milli_s", models.BigIntegerField(default=0)),
                        ("demand_milli_s", models.BigIntegerField(default=0)),
                        (
                            "entitled_milli_s",
                            models.BigIntegerField(default=0, help_text="entitlement x all devices x one hour"),
                        ),
                        (
                            "available_milli_s",
                            models.BigIntegerField(default=0, help_text="entitlement x healthy devices"),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.budgetnode"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("node", "cluster", "hour"),
                                include=("charged_milli_s", "uncharged_milli_s", "demand_milli_s"),
                                name="one_row_per_hour",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UtilizationHour",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("hour", scheduler.models.fields.SecondField()),
                        (
                            "measured_milli_s",
                            models.BigIntegerField(help_text="held device time over which activity was measured"),
                        ),
                        (
                            "busy_milli_s",
                            models.BigIntegerField(help_text="activity of these devices, added up over that time"),
                        ),
                        (
                            "memory_milli",
                            models.PositiveIntegerField(
                                help_text="the most of their memory, in thousandths", null=True
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="utilization",
                                to="scheduler.run",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["cluster", "hour"],
                                include=("run", "measured_milli_s", "busy_milli_s"),
                                name="utilization_figures",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "hour"), name="one_utilization_row_per_hour"),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("busy_milli_s__gte", 0), ("busy_milli_s__lte", models.F("measured_milli_s"))
                                ),
                                name="busy_within_measured",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UtilizationMark",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("rank_index", models.PositiveIntegerField()),
                        ("until_at", scheduler.models.fields.SecondField()),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduler.run"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "rank_index"), name="one_mark_per_rank")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Workload",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("code", models.CharField(max_length=32, unique=True)),
                        ("name", models.CharField(blank=True, max_length=120)),
                        ("size_milli", models.PositiveBigIntegerField()),
                        ("min_runtime_s", models.PositiveIntegerField(help_text="the contract; 0 is unallocated")),
                        (
                            "time_limit_s",
                            models.PositiveIntegerField(
                                blank=True, help_text="it is stopped after this long", null=True
                            ),
                        ),
                        ("priority", models.IntegerField(default=0)),
                        ("cpu_milli_per_rank", models.PositiveIntegerField(default=0)),
                        ("memory_mib_per_rank", models.PositiveIntegerField(default=0)),
                        (
                            "locality",
                            models.PositiveSmallIntegerField(
                                db_default=1,
                                default=1,
                                help_text="how far its owner lets it be spread, where waiting relaxes that: 0 to 3",
                            ),
                        ),
                        (
                            "gpu_classes",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=60),
                                db_default=[],
                                default=list,
                                help_text="those that it can run on; none is all",
                                size=None,
                            ),
                        ),
                        (
                            "needs_fast",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text="it tries high-end classes first, by its own word or by the next",
                            ),
                        ),
                        (
                            "efficiency_percent",
                            models.PositiveSmallIntegerField(
                                blank=True,
                                help_text="how much of their GPUs those like it had used, where that decided",
                                null=True,
                            ),
                        ),
                        (
                            "workload_class",
                            models.CharField(
                                choices=[
                                    ("debug", "Debug"),
                                    ("standard", "Standard"),
                                    ("large", "Large"),
                                    ("unallocated", "Unallocated"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("resumable", models.BooleanField(default=False)),
                        (
                            "checkpoint",
                            models.CharField(
                                blank=True, help_text="where it saves, in its working directory", max_length=300
                            ),
                        ),
                        (
                            "checkpoint_every_s",
                            models.PositiveIntegerField(default=0, help_text="how often it says it saves; 0 is unsaid"),
                        ),
                        (
                            "save_command",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                default=list,
                                help_text="saves a session that is told to stop",
                                size=None,
                            ),
                        ),
                        (
                            "restore_command",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                default=list,
                                help_text="runs in place of the command then",
                                size=None,
                            ),
                        ),
                        (
                            "retries",
                            models.PositiveSmallIntegerField(
                                db_default=0,
                                default=0,
                                help_text="so often it is tried again where it failed by no fault of its own",
                            ),
                        ),
                        ("array", models.UUIDField(blank=True, help_text="tasks of one array share it", null=True)),
                        ("array_index", models.PositiveIntegerField(blank=True, null=True)),
                        (
                            "after_passed",
                            models.BooleanField(
                                db_default=False,
                                default=False,
                                help_text="that is its canary, and it enters the queue only if that passed",
                            ),
                        ),
                        (
                            "command",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                default=list,
                                help_text="argument list, never a shell line",
                                size=None,
                            ),
                        ),
                        ("environment", models.JSONField(default=dict)),
                        (
                            "secrets",
                            budgets.models.sealed.SealedTexts(
                                default=dict, help_text="variables that nobody is shown; gone when it has ended"
                            ),
                        ),
                        ("demo", models.BooleanField(default=False, help_text="its command is one of the demo's own")),
                        ("idempotency_key", models.CharField(blank=True, max_length=80)),
                        (
                            "communication",
                            models.JSONField(
                                blank=True, help_text="what it sends in each iteration; null: unsaid", null=True
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("starting", "Starting"),
                                    ("running", "Running"),
                                    ("leaving", "Leaving"),
                                    ("unreachable", "Unreachable"),
                                    ("held", "Held"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                    ("preempted", "Preempted"),
                                    ("lost", "Lost"),
                                    ("cancelled", "Cancelled"),
                                    ("refused", "Refused"),
                                ],
                                default="queued",
                                max_length=12,
                            ),
                        ),
                        (
                            "submitted_at",
                            scheduler.models.fields.SecondField(help_text="first submission; a requeue keeps it"),
                        ),
                        ("first_started_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("cancel_asked_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "progress_s",
                            models.PositiveIntegerField(default=0, help_text="run time kept over preemptions"),
                        ),
                        ("preemptions", models.PositiveIntegerField(default=0)),
                        (
                            "retried",
                            models.PositiveSmallIntegerField(
                                db_default=0, default=0, help_text="so often it was tried again"
                            ),
                        ),
                        (
                            "forgiven_s",
                            models.PositiveIntegerField(
                                db_default=0,
                                default=0,
                                help_text="of its progress, what counts no more for the order inside its leaf",
                            ),
                        ),
                        (
                            "requeued_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="when its last run ended, and it returned to the queue", null=True
                            ),
                        ),
                        (
                            "predicted_s",
                            models.PositiveIntegerField(
                                blank=True,
                                help_text="how long it was thought to execute, where that is asked",
                                null=True,
                            ),
                        ),
                        ("reason_code", models.CharField(blank=True, max_length=40)),
                        ("reason_text", models.TextField(blank=True)),
                        ("reason_numbers", models.JSONField(default=dict)),
                        (
                            "place",
                            models.PositiveIntegerField(
                                blank=True, help_text="in the order of the last pass", null=True
                            ),
                        ),
                        ("earliest_start_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "advice",
                            models.ForeignKey(
                                blank=True,
                                db_index=False,
                                help_text="what the advisor found in its program",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="workloads",
                                to="scheduler.advice",
                            ),
                        ),
                        (
                            "after",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="followers",
                                to="scheduler.workload",
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="workloads",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "leaf",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="workloads",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                blank=True,
                                help_text="pin",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pinned",
                                to="scheduler.node",
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="workloads",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["submitted_at", "code"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(
                                    ("state__in", ("queued", "starting", "running", "leaving", "unreachable", "held"))
                                ),
                                fields=["cluster"],
                                name="workload_open",
                            ),
                            models.Index(fields=["-submitted_at", "-id"], name="workload_latest"),
                            models.Index(fields=["leaf", "-submitted_at"], name="workload_of_leaf"),
                            models.Index(fields=["owner", "-submitted_at"], name="workload_of_owner"),
                            models.Index(fields=["cluster", "-ended_at"], name="workload_ended"),
                            models.Index(
                                condition=models.Q(("first_started_at__isnull", False)),
                                fields=["cluster", "first_started_at"],
                                name="workload_first_started",
                            ),
                            models.Index(
                                condition=models.Q(("advice__isnull", False)),
                                fields=["advice"],
                                name="workload_advised",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("size_milli__gt", 0)), name="workload_asks_for_something"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("locality__lte", 3)), name="workload_locality_is_a_level"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("size_milli__lt", 1000),
                                    (
                                        "size_milli",
                                        models.Func(models.F("size_milli"), template="(%(expressions)s / 1000) * 1000"),
                                    ),
                                    _connector="OR",
                                ),
                                name="a_fraction_is_of_one_device",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("ended_at__isnull", False),
                                        (
                                            "state__in",
                                            ("finished", "failed", "preempted", "lost", "cancelled", "refused"),
                                        ),
                                    ),
                                    models.Q(
                                        ("ended_at__isnull", True),
                                        (
                                            "state__in",
                                            ("queued", "starting", "running", "leaving", "unreachable", "held"),
                                        ),
                                    ),
                                    _connector="OR",
                                ),
                                name="ended_has_an_end",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("array__isnull", False)),
                                fields=("array", "array_index"),
                                name="array_indexes_are_unique",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("idempotency_key", ""), _negated=True),
                                fields=("owner", "idempotency_key"),
                                name="submitted_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SlurmJob",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("job_id", models.PositiveBigIntegerField()),
                        ("restarts", models.PositiveIntegerField(default=0)),
                        ("state", models.CharField(blank=True, max_length=20)),
                        ("reason", models.CharField(blank=True, max_length=120)),
                        ("shape", models.CharField(blank=True, max_length=40)),
                        ("started", models.BooleanField(default=False)),
                        (
                            "submitted_at",
                            scheduler.models.fields.SecondField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("missing_since", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "stop_sent_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="it was told to stop for the run that it has", null=True
                            ),
                        ),
                        ("kill_sent_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("gone_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("note", models.CharField(blank=True, max_length=300)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_jobs",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_jobs",
                                to="scheduler.run",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="slurm_jobs",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["cluster", "job_id"],
                        "indexes": [
                            models.Index(fields=["run"], name="slurm_job_of_run"),
                            models.Index(fields=["cluster", "job_id"], name="slurm_job_by_id"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("gone_at__isnull", True)),
                                fields=("workload",),
                                name="one_slurm_job_a_workload",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SavedDirectory",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("rank_index", models.PositiveIntegerField()),
                        (
                            "received_bytes",
                            models.PositiveBigIntegerField(default=0, help_text="of its archive, so far"),
                        ),
                        (
                            "stored_at",
                            scheduler.models.fields.SecondField(
                                blank=True, help_text="its archive is whole", null=True
                            ),
                        ),
                        ("digest", models.CharField(blank=True, help_text="SHA-256 of the archive", max_length=64)),
                        ("problem", models.CharField(blank=True, help_text="why it cannot travel", max_length=200)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduler.node"
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="saved_directories",
                                to="scheduler.run",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="saved_directories",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["workload", "run", "rank_index"],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "rank_index"), name="one_saved_directory_a_rank"),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("stored_at__isnull", True),
                                    models.Q(("digest", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="stored_has_a_digest",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Reservation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("starts_at", scheduler.models.fields.SecondField()),
                        ("holdings", models.JSONField(help_text="milli by node name")),
                        (
                            "counts_on",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="ids of the runs it takes from",
                                size=None,
                            ),
                        ),
                        ("made_at", scheduler.models.fields.SecondField()),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        ("outcome", models.CharField(blank=True, max_length=20)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reservations",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "made_in",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduler.pass"
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reservations",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)),
                                fields=("workload",),
                                name="one_reservation_at_a_time",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ForecastStart",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("kind", models.CharField(help_text="its class", max_length=12)),
                        (
                            "futures",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.IntegerField(null=True), size=None
                            ),
                        ),
                        ("low_s", models.PositiveIntegerField(blank=True, null=True)),
                        ("middle_s", models.PositiveIntegerField(blank=True, null=True)),
                        ("high_s", models.PositiveIntegerField(blank=True, null=True)),
                        ("start_s", models.PositiveIntegerField(blank=True, null=True)),
                        (
                            "outcome",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("held", "Held"),
                                    ("missed", "Missed"),
                                    ("left", "it was cancelled or held before it started"),
                                ],
                                default="",
                                max_length=8,
                            ),
                        ),
                        (
                            "forecast",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="starts",
                                to="scheduler.forecast",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="scheduler.workload"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("outcome", "")), fields=["forecast"], name="forecast_start_open"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("forecast", "workload"), name="one_start_of_a_workload")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Event",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", scheduler.models.fields.SecondField()),
                        ("kind", models.CharField(max_length=40)),
                        ("person_id", models.BigIntegerField(null=True)),
                        ("data", models.JSONField(default=dict)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="events", to="budgets.cluster"
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="events",
                                to="scheduler.node",
                            ),
                        ),
                        (
                            "made_in",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="events",
                                to="scheduler.pass",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="events",
                                to="scheduler.run",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="events",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(fields=["cluster", "id"], name="event_of_cluster"),
                            models.Index(
                                condition=models.Q(("workload__isnull", False)),
                                fields=["workload", "id"],
                                name="event_of_workload",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Decision",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", scheduler.models.fields.SecondField()),
                        ("action", models.CharField(max_length=20)),
                        ("code", models.CharField(max_length=40)),
                        ("text", models.TextField()),
                        ("numbers", models.JSONField(default=dict)),
                        ("place", models.PositiveIntegerField(blank=True, null=True)),
                        ("earliest_start_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "made_in",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="decisions",
                                to="scheduler.pass",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="decisions",
                                to="scheduler.run",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="scheduler.workload",
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="decisions",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Claim",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("holdings", models.JSONField(help_text="milli by node name")),
                        (
                            "waits_for",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="ids of the runs that are leaving",
                                size=None,
                            ),
                        ),
                        ("made_at", scheduler.models.fields.SecondField()),
                        ("ended_at", scheduler.models.fields.SecondField(blank=True, null=True)),
                        (
                            "outcome",
                            models.CharField(blank=True, help_text="started, or why the plan ended", max_length=20),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="claims", to="budgets.cluster"
                            ),
                        ),
                        (
                            "made_in",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduler.pass"
                            ),
                        ),
                        (
                            "workload",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="claims",
                                to="scheduler.workload",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)), fields=("workload",), name="one_claim_at_a_time"
                            )
                        ],
                    },
                ),
            ]
        ),
        migrations.RunSQL(HOLDINGS_AND_EVENTS, NO_HOLDINGS_AND_EVENTS),
        migrations.RunSQL(SECRETS, NO_SECRETS),
        migrations.RunSQL(PLACES, NO_PLACES),
    ]
