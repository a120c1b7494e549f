"""Rules that the database keeps whoever writes: sums of shares, and a ledger that only grows."""

from django.db import migrations

SUMS = """
CREATE FUNCTION budgets_share_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    above bigint;
    faulty record;
BEGIN
    SELECT parent_id INTO above FROM budgets_budgetnode WHERE id = NEW.node_id;
    IF above IS NULL THEN
        RAISE EXCEPTION 'the root has no share' USING ERRCODE = 'check_violation';
    END IF;
    -- Two transactions that change siblings meet here, so that neither misses the other's rows.
    PERFORM 1 FROM budgets_budgetnode WHERE id = above FOR UPDATE;
    -- The sum can only rise where some sibling's share begins, so those dates are enough.
    SELECT starts.valid_from AS day, sum(s.basis_points) AS total INTO faulty
    FROM budgets_share starts
    JOIN budgets_budgetnode n ON n.id = starts.node_id AND n.parent_id = above
    JOIN budgets_share s ON s.cluster_id = starts.cluster_id
        AND daterange(s.valid_from, s.valid_until) @> starts.valid_from
    JOIN budgets_budgetnode sibling ON sibling.id = s.node_id AND sibling.parent_id = above
    WHERE starts.cluster_id = NEW.cluster_id
    GROUP BY starts.id, starts.valid_from
    HAVING sum(s.basis_points) > 10000
    ORDER BY starts.valid_from LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'shares under budget node % sum to % basis points from %', above, faulty.total, faulty.day
            USING ERRCODE = 'check_violation', CONSTRAINT = 'shares_sum_to_the_whole_at_most';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER shares_sum_to_the_whole_at_most AFTER INSERT OR UPDATE ON budgets_share
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION budgets_share_sum();

CREATE FUNCTION allotment_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_only_grows BEFORE UPDATE OR DELETE ON budgets_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION allotment_append_only();
CREATE TRIGGER ledger_is_not_emptied BEFORE TRUNCATE ON budgets_ledgerentry
    FOR EACH STATEMENT EXECUTE FUNCTION allotment_append_only();
"""

UNDO = """
DROP TRIGGER ledger_is_not_emptied ON budgets_ledgerentry;
DROP TRIGGER ledger_only_grows ON budgets_ledgerentry;
DROP FUNCTION allotment_append_only();
DROP TRIGGER shares_sum_to_the_whole_at_most ON budgets_share;
DROP FUNCTION budgets_share_sum();
"""


class Migration(migrations.Migration):
    dependencies = [("budgets", "0001_initial")]
    operations = [migrations.RunSQL(SUMS, UNDO)]
