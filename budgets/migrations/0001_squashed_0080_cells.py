"""All migrations up to 0080 in one, for a new database; what the database enforces whoever writes is at its end."""

import budgets.models.ranges
import budgets.models.sealed
import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.constraints
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from budgets.at_once import CreateModels

SHARES = """
CREATE FUNCTION budgets_share_parent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.parent_id IS NULL THEN
        SELECT parent_id INTO NEW.parent_id FROM budgets_budgetnode WHERE id = NEW.node_id;
    END IF;
    IF NEW.parent_id IS NULL THEN
        RAISE EXCEPTION 'the root has no share' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER share_names_its_parent BEFORE INSERT OR UPDATE ON budgets_share
    FOR EACH ROW EXECUTE FUNCTION budgets_share_parent();

CREATE FUNCTION budgets_share_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    faulty record;
BEGIN
    -- Two transactions that change siblings meet here, so that neither misses the other's rows.
    PERFORM 1 FROM budgets_budgetnode WHERE id = NEW.parent_id FOR NO KEY UPDATE;
    WITH steps AS (
        SELECT valid_from AS day, basis_points AS change FROM budgets_share
        WHERE parent_id = NEW.parent_id AND cluster_id = NEW.cluster_id
        UNION ALL
        SELECT valid_until, -basis_points FROM budgets_share
        WHERE parent_id = NEW.parent_id AND cluster_id = NEW.cluster_id AND valid_until IS NOT NULL
    ), days AS (
        SELECT day, sum(sum(change)) OVER (ORDER BY day) AS total FROM steps GROUP BY day
    )
    SELECT day, total INTO faulty FROM days WHERE total > 10000 ORDER BY day LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'shares under budget node % sum to % basis points from %',
            NEW.parent_id, faulty.total, faulty.day
            USING ERRCODE = 'check_violation', CONSTRAINT = 'shares_sum_to_the_whole_at_most';
    END IF;
    DELETE FROM budgets_sharestocheck WHERE parent_id = NEW.parent_id AND cluster_id = NEW.cluster_id;
    RETURN NULL;
END $$;

CREATE TABLE budgets_sharestocheck (
    parent_id bigint NOT NULL,
    cluster_id bigint NOT NULL,
    PRIMARY KEY (parent_id, cluster_id)
);

CREATE FUNCTION budgets_note_shares() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO budgets_sharestocheck SELECT DISTINCT parent_id, cluster_id FROM changed ORDER BY 1, 2
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER note_new_shares AFTER INSERT ON budgets_share
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION budgets_note_shares();
CREATE TRIGGER note_changed_shares AFTER UPDATE ON budgets_share
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION budgets_note_shares();
CREATE CONSTRAINT TRIGGER shares_sum_to_the_whole_at_most AFTER INSERT ON budgets_sharestocheck
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION budgets_share_sum();
"""

LEDGER = """
CREATE FUNCTION allotment_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_only_grows BEFORE UPDATE OR DELETE ON budgets_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION allotment_append_only();
CREATE TRIGGER ledger_is_not_emptied BEFORE TRUNCATE ON budgets_ledgerentry
    FOR EACH STATEMENT EXECUTE FUNCTION allotment_append_only();
"""

REVIEWS = """
CREATE FUNCTION budgets_review_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.snapshot_id <> '' AND (NEW.snapshot_id <> OLD.snapshot_id OR NEW.snapshot IS DISTINCT FROM OLD.snapshot) THEN
        RAISE EXCEPTION 'the snapshot of review % is frozen', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER review_snapshot_stays BEFORE UPDATE OF snapshot, snapshot_id ON budgets_review
    FOR EACH ROW EXECUTE FUNCTION budgets_review_frozen();

CREATE FUNCTION budgets_review_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'review % is over', OLD.id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ended_review_stays BEFORE UPDATE OR DELETE ON budgets_review
    FOR EACH ROW WHEN (OLD.state IN ('closed', 'cancelled')) EXECUTE FUNCTION budgets_review_over();

CREATE FUNCTION budgets_review_item_stays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    over bigint;
BEGIN
    IF TG_OP = 'DELETE' THEN touched := OLD; ELSE touched := NEW; END IF;
    IF TG_TABLE_NAME = 'budgets_voice' THEN
        SELECT r.id INTO over FROM budgets_review r JOIN budgets_reviewitem i ON i.review_id = r.id
            WHERE i.id = touched.item_id AND r.state IN ('closed', 'cancelled');
    ELSE
        SELECT r.id INTO over FROM budgets_review r
            WHERE r.id = touched.review_id AND r.state IN ('closed', 'cancelled');
    END IF;
    IF over IS NOT NULL THEN
        RAISE EXCEPTION 'review % is over', over USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN touched;
END $$;
CREATE TRIGGER items_of_an_ended_review_stay BEFORE INSERT OR UPDATE OR DELETE ON budgets_reviewitem
    FOR EACH ROW EXECUTE FUNCTION budgets_review_item_stays();
CREATE TRIGGER voices_of_an_ended_review_stay BEFORE INSERT OR UPDATE OR DELETE ON budgets_voice
    FOR EACH ROW EXECUTE FUNCTION budgets_review_item_stays();
"""

SECRETS = """
ALTER TABLE budgets_webhook ADD CONSTRAINT webhook_secrets_are_sealed CHECK (
    secret LIKE 'sealed1:%' AND (old_secret = '' OR old_secret LIKE 'sealed1:%')
);
"""

NO_SHARES = """
DROP FUNCTION budgets_share_parent() CASCADE;
DROP FUNCTION budgets_note_shares() CASCADE;
DROP TABLE budgets_sharestocheck;
DROP FUNCTION budgets_share_sum();
"""

NO_LEDGER = """
DROP FUNCTION allotment_append_only() CASCADE;
"""

NO_REVIEWS = """
DROP FUNCTION budgets_review_item_stays() CASCADE;
DROP FUNCTION budgets_review_over() CASCADE;
DROP FUNCTION budgets_review_frozen() CASCADE;
"""

NO_SECRETS = """
ALTER TABLE budgets_webhook DROP CONSTRAINT webhook_secrets_are_sealed;
"""


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("budgets", "0001_initial"),
        ("budgets", "0002_rules_in_the_database"),
        ("budgets", "0003_share_names_its_parent"),
        ("budgets", "0004_governance"),
        ("budgets", "0005_disabled_at"),
        ("budgets", "0006_sending_and_balances"),
        ("budgets", "0007_follow_up_asked"),
        ("budgets", "0008_sums_checked_once"),
        ("budgets", "0009_closed_reviews_stay"),
        ("budgets", "0010_person_language"),
        ("budgets", "0011_slurm_executors"),
        ("budgets", "0020_access_tokens"),
        ("budgets", "0021_identities"),
        ("budgets", "0022_kind_access"),
        ("budgets", "0025_kept_answers"),
        ("budgets", "0030_webhooks"),
        ("budgets", "0075_limits"),
        ("budgets", "0080_cells"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Cluster",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.SlugField(max_length=40, unique=True)),
                        ("title", models.CharField(blank=True, max_length=120)),
                        (
                            "unit",
                            models.CharField(choices=[("gpu", "GPU"), ("core", "core")], default="gpu", max_length=8),
                        ),
                        ("model", models.CharField(blank=True, help_text="kind of the unit, say H100", max_length=60)),
                        (
                            "executor",
                            models.CharField(
                                choices=[
                                    ("agent", "node agents"),
                                    ("simulated", "simulated nodes"),
                                    ("slurm", "Slurm, which carries out what is decided here"),
                                    ("advised", "Slurm, which decides by the shares given here"),
                                ],
                                default="agent",
                                max_length=12,
                            ),
                        ),
                        ("position", models.PositiveSmallIntegerField(default=0, help_text="order on pages")),
                    ],
                    options={
                        "ordering": ["position", "name"],
                    },
                ),
                migrations.CreateModel(
                    name="Person",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("password", models.CharField(max_length=128, verbose_name="password")),
                        ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                        (
                            "is_superuser",
                            models.BooleanField(
                                default=False,
                                help_text="Designates that this user has all permissions without explicitly assigning them.",
                                verbose_name="superuser status",
                            ),
                        ),
                        (
                            "username",
                            models.CharField(
                                error_messages={"unique": "A user with that username already exists."},
                                help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                                max_length=150,
                                unique=True,
                                validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                                verbose_name="username",
                            ),
                        ),
                        ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                        ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                        ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                        (
                            "is_staff",
                            models.BooleanField(
                                default=False,
                                help_text="Designates whether the user can log into this admin site.",
                                verbose_name="staff status",
                            ),
                        ),
                        (
                            "is_active",
                            models.BooleanField(
                                default=True,
                                help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                                verbose_name="active",
                            ),
                        ),
                        (
                            "date_joined",
                            models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined"),
                        ),
                        ("display_name", models.CharField(blank=True, max_length=120)),
                        (
                            "language",
                            models.CharField(
                                blank=True,
                                editable=False,
                                help_text="of pages and letters; empty is what the browser asks for",
                                max_length=8,
                            ),
                        ),
                        (
                            "disabled_at",
                            models.DateTimeField(
                                blank=True, editable=False, help_text="when what they held was taken away", null=True
                            ),
                        ),
                        (
                            "groups",
                            models.ManyToManyField(
                                blank=True,
                                help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.group",
                                verbose_name="groups",
                            ),
                        ),
                        (
                            "user_permissions",
                            models.ManyToManyField(
                                blank=True,
                                help_text="Specific permissions for this user.",
                                related_name="user_set",
                                related_query_name="user",
                                to="auth.permission",
                                verbose_name="user permissions",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["username"],
                    },
                    managers=[
                        ("objects", django.contrib.auth.models.UserManager()),
                    ],
                ),
                migrations.CreateModel(
                    name="BooksCheck",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "book",
                            models.CharField(
                                choices=[
                                    ("shares", "shares: the ledger, and what is in force on every date"),
                                    ("sums", "sums: at most 100 % of each parent on every date"),
                                    ("tree", "tree: names and parents, and the ledger"),
                                    ("usage", "usage: the hourly figures, and the stored runs"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("cluster_name", models.CharField(blank=True, max_length=40)),
                        ("checked_at", models.DateTimeField()),
                        ("compared", models.PositiveIntegerField(help_text="rows, or hours")),
                        ("differing", models.PositiveIntegerField(default=0)),
                        ("differences", models.JSONField(default=list, help_text="the first of them, in words")),
                    ],
                    options={
                        "ordering": ["book", "cluster_name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("book", "cluster_name"), name="one_check_of_a_book")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BudgetNode",
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
                                    ("organisation", "Organisation"),
                                    ("program", "Program"),
                                    ("project", "Project"),
                                    ("subproject", "sub-project"),
                                    ("member", "Member"),
                                ],
                                max_length=12,
                            ),
                        ),
                        (
                            "code",
                            models.CharField(
                                help_text="short and for life: begins the ids of its workloads, stands in its chip",
                                max_length=16,
                                unique=True,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[A-Za-z0-9][A-Za-z0-9_.]*$", "letters, digits, _ and . only"
                                    )
                                ],
                            ),
                        ),
                        ("name", models.CharField(max_length=120)),
                        (
                            "colour",
                            models.PositiveSmallIntegerField(
                                default=0, help_text="team colour 1 to 8 for life; 0 is other"
                            ),
                        ),
                        (
                            "path",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), default=list, size=None
                            ),
                        ),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("closed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "version",
                            models.PositiveIntegerField(default=1, help_text="raised by every change; forms carry it"),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="children",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["path"],
                        "indexes": [django.contrib.postgres.indexes.GinIndex(fields=["path"], name="budgetnode_path")],
                        "constraints": [
                            models.UniqueConstraint(
                                models.F("kind"),
                                condition=models.Q(("parent__isnull", True)),
                                name="one_root",
                                violation_error_message="one root",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("kind", "organisation"), ("parent__isnull", True)),
                                    models.Q(
                                        ("parent__isnull", False), models.Q(("kind", "organisation"), _negated=True)
                                    ),
                                    _connector="OR",
                                ),
                                name="root_is_the_organisation",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("parent", models.F("id")), _negated=True), name="not_its_own_parent"
                            ),
                            models.CheckConstraint(condition=models.Q(("colour__lte", 8)), name="colour_1_to_8"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CellGrant",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("level", models.CharField(choices=[("node", "whole node"), ("rack", "rack")], max_length=8)),
                        ("count", models.PositiveIntegerField()),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="cell_grants",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="cell_grants",
                                to="budgets.cluster",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "cluster", "level"],
                        "constraints": [
                            models.UniqueConstraint(fields=("node", "cluster", "level"), name="one_grant_of_a_level"),
                            models.CheckConstraint(
                                condition=models.Q(("level__in", ["node", "rack"])), name="cells_of_a_known_level"
                            ),
                            models.CheckConstraint(condition=models.Q(("count__gte", 1)), name="at_least_one_cell"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Delegation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "limit_basis_points",
                            models.PositiveIntegerField(help_text="what one decision may move at most, of its parent"),
                        ),
                        ("valid_from", models.DateField()),
                        ("valid_until", models.DateField()),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        (
                            "ended_at",
                            models.DateTimeField(blank=True, help_text="taken back before its last day", null=True),
                        ),
                        (
                            "delegate",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="delegations_held",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "giver",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="delegations_given",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="delegations",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-valid_from", "-id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("valid_until__gt", models.F("valid_from"))),
                                name="delegation_dates_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("delegate", models.F("giver")), _negated=True),
                                name="delegation_to_another",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("limit_basis_points__gte", 1), ("limit_basis_points__lte", 10000)),
                                name="delegation_limit_1_to_whole",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Digest",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("emailed_at", models.DateTimeField(blank=True, null=True)),
                        ("posted_at", models.DateTimeField(blank=True, null=True)),
                        ("sent_at", models.DateTimeField(blank=True, null=True)),
                        ("tries", models.PositiveSmallIntegerField(default=0)),
                        ("try_again_at", models.DateTimeField(blank=True, null=True)),
                        ("last_error", models.CharField(blank=True, max_length=200)),
                        ("day", models.DateField()),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="digests",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(condition=models.Q(("sent_at", None)), fields=["id"], name="digests_to_send")
                        ],
                        "constraints": [models.UniqueConstraint(fields=("person", "day"), name="one_digest_a_day")],
                    },
                ),
                migrations.CreateModel(
                    name="House",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "root_rule",
                            models.CharField(
                                choices=[
                                    ("second_manager", "another manager of the organisation"),
                                    ("notice", "three days' notice to all managers"),
                                ],
                                default="second_manager",
                                max_length=16,
                            ),
                        ),
                        (
                            "answer_days",
                            models.PositiveSmallIntegerField(
                                default=7,
                                help_text="a request that nobody has answered after so many days goes one level up",
                            ),
                        ),
                        (
                            "look_again_weeks",
                            models.PositiveSmallIntegerField(
                                default=4, help_text="after so many weeks it is asked whether a decision worked"
                            ),
                        ),
                        ("version", models.PositiveIntegerField(default=1)),
                    ],
                    options={
                        "constraints": [models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_house")],
                    },
                ),
                migrations.CreateModel(
                    name="Identity",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
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
                    name="KeptAnswer",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.CharField(max_length=100)),
                        ("route", models.CharField(help_text="method and path", max_length=300)),
                        ("digest", models.CharField(help_text="keyed hash of what was sent, and where", max_length=64)),
                        (
                            "status",
                            models.PositiveSmallIntegerField(
                                blank=True, help_text="null only while it is answered", null=True
                            ),
                        ),
                        ("headers", models.JSONField(default=dict)),
                        ("body", models.JSONField(blank=True, null=True)),
                        ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["made_at"], name="kept_answer_age")],
                        "constraints": [models.UniqueConstraint(fields=("person", "key"), name="answered_once")],
                    },
                ),
                migrations.CreateModel(
                    name="LedgerEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True),
                        ),
                        ("person_id", models.BigIntegerField(help_text="who did it; null for the system", null=True)),
                        ("on_behalf_of_id", models.BigIntegerField(null=True)),
                        ("verb", models.CharField(max_length=40)),
                        ("node_id", models.BigIntegerField(db_index=True, null=True)),
                        ("node_code", models.CharField(blank=True, max_length=16)),
                        ("node_name", models.CharField(blank=True, max_length=120)),
                        ("cluster_name", models.CharField(blank=True, max_length=40)),
                        ("before", models.JSONField(null=True)),
                        ("after", models.JSONField(null=True)),
                        ("reason", models.TextField(blank=True)),
                        (
                            "evidence",
                            models.JSONField(help_text="the figures that were looked at, if any were kept", null=True),
                        ),
                        ("request_id", models.BigIntegerField(null=True)),
                        ("reallocation_id", models.BigIntegerField(null=True)),
                        ("review_id", models.BigIntegerField(null=True)),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("request_id", None), _negated=True),
                                fields=["request_id"],
                                name="entry_of_request",
                            ),
                            models.Index(
                                condition=models.Q(("reallocation_id", None), _negated=True),
                                fields=["reallocation_id"],
                                name="entry_of_reallocation",
                            ),
                            models.Index(
                                condition=models.Q(("review_id", None), _negated=True),
                                fields=["review_id"],
                                name="entry_of_review",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Limit",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("minimum_milli", models.PositiveBigIntegerField(default=0)),
                        ("maximum_milli", models.PositiveBigIntegerField(blank=True, null=True)),
                        ("factor_milli", models.PositiveIntegerField(default=1000)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="limits", to="budgets.cluster"
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="limits",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "cluster"],
                        "constraints": [
                            models.UniqueConstraint(fields=("node", "cluster"), name="one_limit_of_a_node"),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("maximum_milli__isnull", True),
                                    ("maximum_milli__gte", models.F("minimum_milli")),
                                    _connector="OR",
                                ),
                                name="minimum_at_most_the_maximum",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("factor_milli__gte", 1)), name="weight_above_zero"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Message",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("emailed_at", models.DateTimeField(blank=True, null=True)),
                        ("posted_at", models.DateTimeField(blank=True, null=True)),
                        ("sent_at", models.DateTimeField(blank=True, null=True)),
                        ("tries", models.PositiveSmallIntegerField(default=0)),
                        ("try_again_at", models.DateTimeField(blank=True, null=True)),
                        ("last_error", models.CharField(blank=True, max_length=200)),
                        ("key", models.CharField(max_length=120, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("to_decide", "something waits for my decision"),
                                    ("decision", "something of mine was decided"),
                                    ("comment", "somebody said something to a request of mine"),
                                    ("budget", "a budget changes, ends, or is nearly used"),
                                    ("review", "a review meeting"),
                                    ("workload", "a workload of mine was preempted or has failed"),
                                    ("follow_up", "a decision is to be looked at again"),
                                    ("webhook", "a webhook of mine was turned off"),
                                    ("access", "my password was changed, or an access token of mine ends"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("subject", models.CharField(max_length=200)),
                        ("text", models.TextField(blank=True)),
                        ("path", models.CharField(blank=True, max_length=300)),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("now", "at once"),
                                    ("digest", "in one daily digest"),
                                    ("off", "on the portal only"),
                                ],
                                max_length=6,
                            ),
                        ),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("read_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "digest",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="messages",
                                to="budgets.digest",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="messages",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["person", "-id"], name="messages_of_a_person"),
                            models.Index(
                                condition=models.Q(("read_at", None)), fields=["person"], name="messages_unread"
                            ),
                            models.Index(
                                condition=models.Q(("sent_at", None), models.Q(("mode", "off"), _negated=True)),
                                fields=["id"],
                                name="messages_to_send",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MessageChoice",
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
                                    ("to_decide", "something waits for my decision"),
                                    ("decision", "something of mine was decided"),
                                    ("comment", "somebody said something to a request of mine"),
                                    ("budget", "a budget changes, ends, or is nearly used"),
                                    ("review", "a review meeting"),
                                    ("workload", "a workload of mine was preempted or has failed"),
                                    ("follow_up", "a decision is to be looked at again"),
                                    ("webhook", "a webhook of mine was turned off"),
                                    ("access", "my password was changed, or an access token of mine ends"),
                                ],
                                max_length=10,
                            ),
                        ),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("now", "at once"),
                                    ("digest", "in one daily digest"),
                                    ("off", "on the portal only"),
                                ],
                                max_length=6,
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="message_choices",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("person", "kind"), name="one_choice_for_a_kind"),
                            models.CheckConstraint(
                                condition=models.Q(("kind", "decision"), ("mode", "off"), _negated=True),
                                name="decisions_are_told",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Reallocation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("starts_on", models.DateField()),
                        ("ends_on", models.DateField(blank=True, null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("base", models.JSONField(default=dict)),
                        ("base_version", models.PositiveIntegerField(help_text="the parent's, when it was read")),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("draft", "Draft"),
                                    ("submitted", "Submitted"),
                                    ("returned", "Returned"),
                                    ("approved", "Approved"),
                                    ("denied", "Denied"),
                                    ("withdrawn", "Withdrawn"),
                                    ("applied", "Applied"),
                                ],
                                default="draft",
                                max_length=10,
                            ),
                        ),
                        ("answer_by", models.DateTimeField(blank=True, null=True)),
                        (
                            "by_notice",
                            models.BooleanField(
                                default=False,
                                help_text="at the root: approved when the notice is over and nobody has denied it",
                            ),
                        ),
                        (
                            "evidence",
                            models.JSONField(
                                help_text="figures that were looked at: a what-if, the facts of a review", null=True
                            ),
                        ),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("submitted_at", models.DateTimeField(blank=True, null=True)),
                        ("decided_at", models.DateTimeField(blank=True, null=True)),
                        ("decision_reason", models.TextField(blank=True)),
                        ("applied_at", models.DateTimeField(blank=True, null=True)),
                        ("version", models.PositiveIntegerField(default=1)),
                        (
                            "author",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reallocations",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "author_for",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reallocations",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "decided_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "decided_for",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "desk",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="desk_reallocations",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reallocations",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                blank=True,
                                help_text="that it answers",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reallocations",
                                to="budgets.request",
                            ),
                        ),
                        (
                            "review",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reallocations",
                                to="budgets.review",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "submitted")), fields=["desk"], name="reallocation_open_at"
                            ),
                            models.Index(
                                condition=models.Q(("state", "approved")),
                                fields=["starts_on"],
                                name="reallocation_to_apply",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ends_on__isnull", True), ("ends_on__gt", models.F("starts_on")), _connector="OR"
                                ),
                                name="reallocation_dates_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("decided_at__isnull", False),
                                    models.Q(("state__in", ["approved", "denied", "applied"]), _negated=True),
                                    _connector="OR",
                                ),
                                name="reallocation_decided_at_some_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("applied_at__isnull", False),
                                    models.Q(("state", "applied"), _negated=True),
                                    _connector="OR",
                                ),
                                name="reallocation_applied_at_some_time",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("state__in", ["approved", "applied"])),
                                fields=("request",),
                                name="one_decision_on_a_request",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FollowUp",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("due_on", models.DateField()),
                        (
                            "asked_at",
                            models.DateTimeField(
                                blank=True, help_text="when its managers were told that it is due", null=True
                            ),
                        ),
                        (
                            "verdict",
                            models.CharField(
                                blank=True,
                                choices=[("worked", "Worked"), ("partly", "Partly"), ("did_not", "did not work")],
                                max_length=8,
                            ),
                        ),
                        ("text", models.TextField(blank=True)),
                        ("figures", models.JSONField(null=True)),
                        ("answered_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "answered_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "reallocation",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="follow_up",
                                to="budgets.reallocation",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["due_on", "id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("answered_at__isnull", True), ("verdict", "")),
                                    models.Q(("answered_at__isnull", False), models.Q(("verdict", ""), _negated=True)),
                                    _connector="OR",
                                ),
                                name="answered_with_a_verdict",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ReallocationLine",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("before", models.PositiveIntegerField()),
                        ("after", models.PositiveIntegerField()),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.budgetnode"
                            ),
                        ),
                        (
                            "reallocation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="lines",
                                to="budgets.reallocation",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["reallocation", "node"],
                        "constraints": [
                            models.UniqueConstraint(fields=("reallocation", "node"), name="one_line_for_a_child"),
                            models.CheckConstraint(
                                condition=models.Q(("after__lte", 10000), ("before__lte", 10000)),
                                name="line_at_most_the_whole",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Request",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "more_basis_points",
                            models.PositiveIntegerField(help_text="of the parent, on top of what the node has"),
                        ),
                        ("starts_on", models.DateField()),
                        (
                            "ends_on",
                            models.DateField(
                                blank=True, help_text="the first day without it; none is for good", null=True
                            ),
                        ),
                        ("why", models.TextField()),
                        ("otherwise", models.TextField(help_text="what happens if it isn't given")),
                        (
                            "useless_on",
                            models.DateField(blank=True, help_text="from this day on it would be of no use", null=True),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("draft", "Draft"),
                                    ("submitted", "Submitted"),
                                    ("returned", "Returned"),
                                    ("approved", "Approved"),
                                    ("denied", "Denied"),
                                    ("withdrawn", "Withdrawn"),
                                    ("applied", "Applied"),
                                ],
                                default="draft",
                                max_length=10,
                            ),
                        ),
                        (
                            "answer_by",
                            models.DateTimeField(
                                blank=True, help_text="unanswered until then, it goes one level up", null=True
                            ),
                        ),
                        (
                            "figures",
                            models.JSONField(help_text="the asker's own figures when it was submitted", null=True),
                        ),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("submitted_at", models.DateTimeField(blank=True, null=True)),
                        ("decided_at", models.DateTimeField(blank=True, null=True)),
                        ("decision_reason", models.TextField(blank=True)),
                        (
                            "version",
                            models.PositiveIntegerField(default=1, help_text="raised by every change; forms carry it"),
                        ),
                        (
                            "author",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to="budgets.cluster",
                            ),
                        ),
                        (
                            "decided_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "decided_for",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "desk",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="desk_requests",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="requests",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                help_text="what it is a share of",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "upper",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="lower",
                                to="budgets.request",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "submitted")), fields=["desk"], name="request_open_at"
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("more_basis_points__gte", 1), ("more_basis_points__lte", 10000)),
                                name="request_asks_for_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ends_on__isnull", True), ("ends_on__gt", models.F("starts_on")), _connector="OR"
                                ),
                                name="request_dates_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("decided_by__isnull", True),
                                    models.Q(("decided_by", models.F("author")), _negated=True),
                                    _connector="OR",
                                ),
                                name="request_not_decided_by_its_author",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("decided_for__isnull", True),
                                    models.Q(("decided_for", models.F("author")), _negated=True),
                                    _connector="OR",
                                ),
                                name="request_not_decided_for_its_author",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("state", "draft"),
                                    ("submitted_at__isnull", False),
                                    ("state", "withdrawn"),
                                    _connector="OR",
                                ),
                                name="request_submitted_at_some_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("decided_at__isnull", False),
                                    models.Q(("state__in", ["approved", "denied", "applied"]), _negated=True),
                                    _connector="OR",
                                ),
                                name="request_decided_at_some_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Comment",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("text", models.TextField()),
                        (
                            "audience",
                            models.CharField(
                                choices=[
                                    ("all", "everybody who sees the request"),
                                    ("reviewers", "those who decide, and reviewers"),
                                ],
                                default="all",
                                max_length=10,
                            ),
                        ),
                        (
                            "author",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "reallocation",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="comments",
                                to="budgets.reallocation",
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="comments",
                                to="budgets.request",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("reallocation__isnull", False), ("request__isnull", True)),
                                    models.Q(("reallocation__isnull", True), ("request__isnull", False)),
                                    _connector="OR",
                                ),
                                name="comment_on_one_thing",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Attachment",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("name", models.CharField(max_length=120)),
                        ("content_type", models.CharField(max_length=60)),
                        ("content", models.BinaryField()),
                        ("size_bytes", models.PositiveIntegerField()),
                        ("sha256", models.CharField(max_length=64)),
                        (
                            "author",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="attachments",
                                to="budgets.request",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [models.UniqueConstraint(fields=("request", "sha256"), name="same_file_once")],
                    },
                ),
                migrations.CreateModel(
                    name="Review",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("title", models.CharField(max_length=120)),
                        ("period_from", models.DateField()),
                        ("period_until", models.DateField(help_text="the first day that is not of the period")),
                        ("meets_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("planned", "Planned"),
                                    ("open", "Open"),
                                    ("closed", "Closed"),
                                    ("cancelled", "Cancelled"),
                                ],
                                default="planned",
                                max_length=10,
                            ),
                        ),
                        (
                            "applies_from",
                            models.DateField(blank=True, help_text="the stated day of close and apply", null=True),
                        ),
                        (
                            "hands_back_below_percent",
                            models.PositiveSmallIntegerField(
                                default=10, help_text="rule: who used less than this share of its entitlement ..."
                            ),
                        ),
                        (
                            "hands_back_percent",
                            models.PositiveSmallIntegerField(
                                default=25,
                                help_text="... is proposed to hand back so much of its share. It pre-fills and never cuts.",
                            ),
                        ),
                        ("snapshot", models.JSONField(null=True)),
                        ("snapshot_id", models.CharField(blank=True, max_length=16)),
                        ("line", models.PositiveSmallIntegerField(default=0)),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("opened_at", models.DateTimeField(blank=True, null=True)),
                        ("closed_at", models.DateTimeField(blank=True, null=True)),
                        ("version", models.PositiveIntegerField(default=1)),
                        (
                            "closed_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reviews",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "opened_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-meets_at", "-id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("period_until__gt", models.F("period_from"))),
                                name="review_period_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("state__in", ["planned", "cancelled"]),
                                    models.Q(("snapshot_id", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="review_frozen_once_open",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("state", "open")),
                                fields=("node",),
                                name="one_open_review_of_a_node",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ReviewItem",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.PositiveSmallIntegerField()),
                        (
                            "rule",
                            models.CharField(
                                blank=True, help_text="why it is on the agenda, if a rule put it there", max_length=200
                            ),
                        ),
                        ("now", models.PositiveIntegerField()),
                        (
                            "proposed",
                            models.PositiveIntegerField(help_text="what the request or the rule would make of it"),
                        ),
                        ("pencil", models.PositiveIntegerField(blank=True, null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("not_funded", models.TextField(blank=True, help_text="what was asked for and isn't given")),
                        ("look_again_on", models.DateField(blank=True, null=True)),
                        ("version", models.PositiveIntegerField(default=1)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                            ),
                        ),
                        (
                            "marked_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.budgetnode"
                            ),
                        ),
                        (
                            "request",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="review_items",
                                to="budgets.request",
                            ),
                        ),
                        (
                            "review",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="items", to="budgets.review"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["review", "position"],
                        "constraints": [
                            models.UniqueConstraint(fields=("review", "node", "cluster"), name="one_item_for_a_line"),
                            models.UniqueConstraint(
                                deferrable=django.db.models.constraints.Deferrable["DEFERRED"],
                                fields=("review", "position"),
                                name="items_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("pencil__isnull", True), ("pencil__lte", 10000), _connector="OR"),
                                name="pencil_at_most_the_whole",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RoleGrant",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("manager", "Manager"),
                                    ("member", "Member"),
                                    ("reviewer", "Reviewer"),
                                    ("operator", "Operator"),
                                    ("administrator", "Administrator"),
                                ],
                                max_length=14,
                            ),
                        ),
                        ("valid_from", models.DateField()),
                        ("valid_until", models.DateField(blank=True, null=True)),
                        (
                            "granted_by",
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
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="grants",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="grants",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("valid_until__isnull", True),
                                    ("valid_until__gt", models.F("valid_from")),
                                    _connector="OR",
                                ),
                                name="grant_dates_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("granted_by__isnull", True),
                                    models.Q(("granted_by", models.F("person")), _negated=True),
                                    _connector="OR",
                                ),
                                name="nobody_grants_themselves",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                condition=models.Q(("role", "manager")),
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("person"), "&&"),
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_manager_grant_at_a_time",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                condition=models.Q(("role", "member")),
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("person"), "&&"),
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_member_grant_at_a_time",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                condition=models.Q(("role", "reviewer")),
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("person"), "&&"),
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_reviewer_grant_at_a_time",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                condition=models.Q(("role", "operator")),
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("person"), "&&"),
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_operator_grant_at_a_time",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                condition=models.Q(("role", "administrator")),
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("person"), "&&"),
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_administrator_grant_at_a_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClaimedRole",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("group", models.CharField(max_length=255)),
                        (
                            "identity",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="roles", to="budgets.identity"
                            ),
                        ),
                        (
                            "grant",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="claimed",
                                to="budgets.rolegrant",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Share",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("basis_points", models.PositiveIntegerField()),
                        ("valid_from", models.DateField()),
                        ("valid_until", models.DateField(blank=True, null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="shares", to="budgets.cluster"
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="shares",
                                to="budgets.budgetnode",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                editable=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="given_shares",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["node", "cluster", "valid_from"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("basis_points__lte", 10000)), name="share_at_most_the_whole"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("valid_until__isnull", True),
                                    ("valid_until__gt", models.F("valid_from")),
                                    _connector="OR",
                                ),
                                name="share_dates_in_order",
                            ),
                            django.contrib.postgres.constraints.ExclusionConstraint(
                                expressions=[
                                    (budgets.models.ranges.SingletonRange("node"), "&&"),
                                    (budgets.models.ranges.SingletonRange("cluster"), "&&"),
                                    (
                                        budgets.models.ranges.DateRange(
                                            models.F("valid_from"), models.F("valid_until")
                                        ),
                                        "&&",
                                    ),
                                ],
                                name="one_share_at_a_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ShareImport",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=120)),
                        ("sha256", models.CharField(max_length=64)),
                        ("rows", models.JSONField()),
                        ("reason", models.TextField(blank=True)),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("applied_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "author",
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
                                condition=models.Q(("applied_at__isnull", False)),
                                fields=("sha256",),
                                name="same_import_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Threshold",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("percent", models.PositiveSmallIntegerField()),
                        ("fired_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "fired_entitled_milli_s",
                            models.BigIntegerField(
                                blank=True,
                                help_text="what was entitled when it fired: a larger budget arms it again",
                                null=True,
                            ),
                        ),
                        ("times_fired", models.PositiveIntegerField(default=0)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="budgets.cluster"
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="thresholds",
                                to="budgets.budgetnode",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("node", "cluster", "percent"), name="one_threshold_of_a_kind"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("percent__gte", 1), ("percent__lte", 200)),
                                name="threshold_1_to_200",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Voice",
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
                                choices=[("abstains", "Abstains"), ("dissents", "Dissents")], max_length=8
                            ),
                        ),
                        ("text", models.TextField(blank=True)),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        (
                            "item",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="voices",
                                to="budgets.reviewitem",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [models.UniqueConstraint(fields=("item", "person"), name="one_voice_each")],
                    },
                ),
                migrations.CreateModel(
                    name="Webhook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[
                                    ("person", "my messages"),
                                    ("organisation", "what happens in the organisation"),
                                ],
                                default="person",
                                max_length=12,
                            ),
                        ),
                        ("name", models.CharField(blank=True, max_length=60)),
                        ("url", models.URLField(max_length=300)),
                        (
                            "events",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=40),
                                blank=True,
                                default=list,
                                help_text="kinds of messages or events; empty: all",
                                size=None,
                            ),
                        ),
                        ("secret", budgets.models.sealed.SealedText()),
                        ("old_secret", budgets.models.sealed.SealedText(blank=True, default="")),
                        ("old_secret_until", models.DateTimeField(blank=True, null=True)),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("failures", models.PositiveIntegerField(default=0, help_text="tries in a row that failed")),
                        (
                            "paused_until",
                            models.DateTimeField(
                                blank=True, help_text="after a failure nothing is tried until then", null=True
                            ),
                        ),
                        ("delivered_at", models.DateTimeField(blank=True, help_text="the last success", null=True)),
                        ("turned_off_at", models.DateTimeField(blank=True, null=True)),
                        ("turned_off_why", models.CharField(blank=True, max_length=200)),
                        (
                            "person",
                            models.ForeignKey(
                                help_text="whose messages; or who set it up",
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="webhooks",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("scope", "organisation"), ("turned_off_at", None)),
                                fields=["scope"],
                                name="webhooks_of_all",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="WebhookDelivery",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
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
                        (
                            "tries",
                            models.PositiveSmallIntegerField(default=0, help_text="since it was last to be sent"),
                        ),
                        ("next_try_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="budgets.webhook",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
                            models.Index(
                                condition=models.Q(("state", "waiting")), fields=["next_try_at"], name="deliveries_due"
                            ),
                            models.Index(fields=["made_at"], name="deliveries_by_age"),
                        ],
                        "constraints": [models.UniqueConstraint(fields=("webhook", "key"), name="delivered_once")],
                    },
                ),
                migrations.CreateModel(
                    name="WebhookMark",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("event_id", models.BigIntegerField()),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="budgets.cluster"
                            ),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="marks", to="budgets.webhook"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("webhook", "cluster"), name="one_mark_of_a_webhook")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="WebhookTry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
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
                        (
                            "delivery",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="attempts",
                                to="budgets.webhookdelivery",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                    },
                ),
                migrations.CreateModel(
                    name="AccessToken",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(help_text="what its person calls it", max_length=60)),
                        (
                            "prefix",
                            models.CharField(
                                help_text="its first characters, by which people tell it from others", max_length=16
                            ),
                        ),
                        (
                            "digest",
                            models.CharField(help_text="the keyed hash of the secret", max_length=64, unique=True),
                        ),
                        (
                            "scopes",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(
                                    choices=[
                                        ("read", "look, and change nothing"),
                                        ("submit", "submit and cancel workloads, simulate"),
                                        ("operate", "operate clusters and nodes"),
                                        ("decide", "ask for, propose and decide shares and roles"),
                                    ],
                                    max_length=8,
                                ),
                                size=None,
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
                                condition=models.Q(("expires_at__gt", models.F("created_at"))),
                                name="token_dates_in_order",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("scopes__contained_by", ["read", "submit", "operate", "decide"]),
                                    ("scopes__len__gt", 0),
                                ),
                                name="token_has_known_scopes",
                            ),
                        ],
                    },
                ),
            ]
        ),
        migrations.RunSQL(SHARES, NO_SHARES),
        migrations.RunSQL(LEDGER, NO_LEDGER),
        migrations.RunSQL(REVIEWS, NO_REVIEWS),
        migrations.RunSQL(SECRETS, NO_SECRETS),
    ]
