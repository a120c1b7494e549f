"""Sums of shares are checked once a transaction for each parent and cluster, not once for each row that changed.

Rows that change note their parent and cluster in a table of what is to be checked; a deferred trigger on that table
checks, and takes the note away again, so that outside transactions the table is always empty. A file of 5,000 shares
took minutes to commit before.
"""

from django.db import migrations, models
from django.db.models import Q

SUM = """
CREATE OR REPLACE FUNCTION budgets_share_sum() RETURNS trigger LANGUAGE plpgsql AS $$
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
        RAISE EXCEPTION 'shares under budget node %% sum to %% basis points from %%',
            NEW.parent_id, faulty.total, faulty.day
            USING ERRCODE = 'check_violation', CONSTRAINT = 'shares_sum_to_the_whole_at_most';
    END IF;
%s    RETURN NULL;
END $$;
"""
"""The check, of the row that names parent and cluster; what it does at its end is filled in."""

ONCE = """
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

DROP TRIGGER shares_sum_to_the_whole_at_most ON budgets_share;
CREATE TRIGGER note_new_shares AFTER INSERT ON budgets_share
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION budgets_note_shares();
CREATE TRIGGER note_changed_shares AFTER UPDATE ON budgets_share
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION budgets_note_shares();
"""

DEFER = """
CREATE CONSTRAINT TRIGGER shares_sum_to_the_whole_at_most AFTER INSERT ON budgets_sharestocheck
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION budgets_share_sum();
"""

TAKE_NOTE_AWAY = """\
    DELETE FROM budgets_sharestocheck WHERE parent_id = NEW.parent_id AND cluster_id = NEW.cluster_id;
"""

UNDO = """
DROP TRIGGER note_changed_shares ON budgets_share;
DROP TRIGGER note_new_shares ON budgets_share;
DROP FUNCTION budgets_note_shares();
DROP TABLE budgets_sharestocheck;
CREATE CONSTRAINT TRIGGER shares_sum_to_the_whole_at_most AFTER INSERT OR UPDATE ON budgets_share
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION budgets_share_sum();
"""


class Migration(migrations.Migration):
    dependencies = [("budgets", "0007_follow_up_asked")]
    operations = [
        migrations.RunSQL(ONCE + SUM % TAKE_NOTE_AWAY + DEFER, UNDO + SUM % ""),
        migrations.AddIndex(
            "message", models.Index(fields=["person"], name="messages_unread", condition=Q(read_at=None))
        ),
    ]
