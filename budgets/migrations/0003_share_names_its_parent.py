"""A share names the parent that it is a share of, so that moving a node rewrites no past."""

import django.db.models.deletion
from django.db import migrations, models

RULES = """
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

CREATE OR REPLACE FUNCTION budgets_share_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    faulty record;
BEGIN
    -- Two transactions that change siblings meet here, so that neither misses the other's rows.
    PERFORM 1 FROM budgets_budgetnode WHERE id = NEW.parent_id FOR NO KEY UPDATE;
    -- The sum can only rise where some sibling's share begins, so those dates are enough.
    SELECT starts.valid_from AS day, sum(s.basis_points) AS total INTO faulty
    FROM (
        SELECT DISTINCT valid_from FROM budgets_share
        WHERE parent_id = NEW.parent_id AND cluster_id = NEW.cluster_id
    ) starts
    JOIN budgets_share s ON s.parent_id = NEW.parent_id AND s.cluster_id = NEW.cluster_id
        AND daterange(s.valid_from, s.valid_until) @> starts.valid_from
    GROUP BY starts.valid_from
    HAVING sum(s.basis_points) > 10000
    ORDER BY starts.valid_from LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'shares under budget node % sum to % basis points from %',
            NEW.parent_id, faulty.total, faulty.day
            USING ERRCODE = 'check_violation', CONSTRAINT = 'shares_sum_to_the_whole_at_most';
    END IF;
    RETURN NULL;
END $$;
"""

FILL = "UPDATE budgets_share s SET parent_id = n.parent_id FROM budgets_budgetnode n WHERE n.id = s.node_id"


class Migration(migrations.Migration):
    dependencies = [("budgets", "0002_rules_in_the_database")]
    operations = [
        migrations.AddField(
            "share",
            "parent",
            models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="given_shares",
                to="budgets.budgetnode",
            ),
        ),
        migrations.RunSQL([FILL, "SET CONSTRAINTS ALL IMMEDIATE"], migrations.RunSQL.noop),
        migrations.AlterField(
            "share",
            "parent",
            models.ForeignKey(
                editable=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="given_shares",
                to="budgets.budgetnode",
            ),
        ),
        migrations.RunSQL(RULES, migrations.RunSQL.noop),
    ]
