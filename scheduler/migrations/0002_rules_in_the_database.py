"""Rules that the database keeps whoever writes: no device held beyond itself, and a log that only grows."""

from django.db import migrations

RULES = """
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

UNDO = """
DROP TRIGGER events_are_not_emptied ON scheduler_event;
DROP TRIGGER events_only_grow ON scheduler_event;
DROP TRIGGER holdings_gone ON scheduler_holding;
DROP TRIGGER holdings_changed ON scheduler_holding;
DROP TRIGGER holdings_added ON scheduler_holding;
DROP FUNCTION scheduler_holding_gone();
DROP FUNCTION scheduler_holding_added();
DROP FUNCTION scheduler_holding_sum();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0001_initial"), ("budgets", "0002_rules_in_the_database")]
    operations = [migrations.RunSQL(RULES, UNDO)]
