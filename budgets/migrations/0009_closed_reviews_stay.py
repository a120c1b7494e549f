"""A review's snapshot is frozen once; what was marked and said in it stays as it was when it ended."""

from django.db import migrations

RULES = """
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

UNDO = """
DROP TRIGGER voices_of_an_ended_review_stay ON budgets_voice;
DROP TRIGGER items_of_an_ended_review_stay ON budgets_reviewitem;
DROP FUNCTION budgets_review_item_stays();
DROP TRIGGER ended_review_stays ON budgets_review;
DROP FUNCTION budgets_review_over();
DROP TRIGGER review_snapshot_stays ON budgets_review;
DROP FUNCTION budgets_review_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [("budgets", "0008_sums_checked_once")]

    operations = [migrations.RunSQL(RULES, UNDO)]
