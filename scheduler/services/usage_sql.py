"""The statements behind `usage`: set-based, in whole Unix seconds, each hour cut to the second.

Parameters: cluster; start, end (whole hours, `end` cut at now); now; credited; nodes, begins, untils, numerators,
denominators (entitlements as spells of hours). Every statement is built from the same parts, so what is compared is
what would be stored.
"""

CREDITED = ("stopped_by_operator",)
"""End reasons of funded runs whose charge was given back (semantics.md section 7): they count as uncharged, and
as asked for."""

_RUNS = """
runs AS (
    SELECT r.id, r.path, r.size_milli,
        CASE WHEN NOT r.funded THEN 'uncharged' WHEN r.end_reason = ANY(%(credited)s) THEN 'credited'
            ELSE 'charged' END AS kind,
        extract(epoch FROM r.started_at)::bigint AS begins,
        coalesce(extract(epoch FROM r.ended_at)::bigint, %(now)s) AS ends
    FROM scheduler_run r
    WHERE r.cluster_id = %(cluster)s AND r.started_at < to_timestamp(%(end)s)
        AND (r.ended_at IS NULL OR r.ended_at > to_timestamp(%(start)s))
)"""

# What a node was fit for: all its spells, the healthy ones without maintenance, and the rest.
_FITNESS = """
spells AS (
    SELECT s.node_id,
        range_agg(int8range(extract(epoch FROM s.started_at)::bigint,
            coalesce(extract(epoch FROM s.ended_at)::bigint, greatest(%(now)s,
                extract(epoch FROM s.started_at)::bigint)))) AS known,
        range_agg(int8range(extract(epoch FROM s.started_at)::bigint,
            coalesce(extract(epoch FROM s.ended_at)::bigint, greatest(%(now)s,
                extract(epoch FROM s.started_at)::bigint)))) FILTER (WHERE s.state = 'healthy') AS healthy
    FROM scheduler_nodespell s JOIN scheduler_node n ON n.id = s.node_id
    WHERE n.cluster_id = %(cluster)s AND s.started_at < to_timestamp(%(end)s)
        AND (s.ended_at IS NULL OR s.ended_at > to_timestamp(%(start)s))
    GROUP BY s.node_id
), windows AS (
    SELECT w.node_id, range_agg(int8range(extract(epoch FROM w.starts_at)::bigint,
        extract(epoch FROM w.ends_at)::bigint)) AS closed
    FROM scheduler_maintenancewindow w JOIN scheduler_node n ON n.id = w.node_id
    WHERE n.cluster_id = %(cluster)s AND w.cancelled_at IS NULL
    GROUP BY w.node_id
), fitness AS (
    SELECT s.node_id, s.known, h.healthy, s.known - h.healthy AS unfit,
        1000 * (SELECT count(*) FROM scheduler_device d WHERE d.node_id = s.node_id) AS size_milli
    FROM spells s LEFT JOIN windows w ON w.node_id = s.node_id
    CROSS JOIN LATERAL (
        SELECT coalesce(s.healthy, '{}'::int8multirange) - coalesce(w.closed, '{}'::int8multirange) AS healthy
    ) h
)"""

_CLUSTER_HOURS = (
    "WITH"
    + _RUNS
    + ","
    + _FITNESS
    + """, pieces AS (
    SELECT 'capacity' AS kind, f.size_milli AS amount, lower(part) AS begins, upper(part) AS ends
    FROM fitness f, unnest(f.known) part
    UNION ALL
    SELECT 'healthy', f.size_milli, lower(part), upper(part) FROM fitness f, unnest(f.healthy) part
    UNION ALL
    SELECT kind, size_milli, begins, ends FROM runs
    UNION ALL
    SELECT 'unfit', h.milli, lower(part), upper(part)
    FROM fitness f
    JOIN scheduler_holding h ON h.node_id = f.node_id
    JOIN runs r ON r.id = h.run_id
    CROSS JOIN LATERAL unnest(f.unfit * int8multirange(int8range(r.begins, greatest(r.begins,
        coalesce(extract(epoch FROM h.released_at)::bigint, r.ends))))) part
    WHERE NOT isempty(f.unfit)
), cut AS (
    SELECT kind, hour, amount * (least(ends, hour + 3600, %(end)s) - greatest(begins, hour, %(start)s)) AS milli_s
    FROM pieces, generate_series(greatest(begins, %(start)s) / 3600 * 3600, least(ends, %(end)s) - 1, 3600) hour
), cluster_hours AS (
    SELECT hour,
        coalesce(sum(milli_s) FILTER (WHERE kind = 'capacity'), 0)::bigint AS capacity_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind = 'healthy'), 0)::bigint AS healthy_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind IN ('charged', 'credited', 'uncharged')), 0)::bigint AS held_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind = 'unfit'), 0)::bigint AS held_unfit_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind IN ('credited', 'uncharged')), 0)::bigint AS uncharged_milli_s
    FROM cut GROUP BY hour
)"""
)

# Funded workloads ask from their submission to their end: for what a run holds while there is one, and in the gaps
# between for what they would hold, whole nodes where they are larger than one. While held they ask for nothing.
_DEMAND = """
asking AS (
    SELECT w.id, n.path, w.size_milli,
        extract(epoch FROM w.submitted_at)::bigint AS begins,
        coalesce(extract(epoch FROM w.ended_at)::bigint, %(now)s) AS ends
    FROM scheduler_workload w JOIN budgets_budgetnode n ON n.id = w.leaf_id
    WHERE w.cluster_id = %(cluster)s AND w.min_runtime_s > 0 AND w.state <> 'refused'
        AND NOT (w.state = 'held' AND w.reason_code IN ('waiting_after', 'canary_failed'))
        AND w.submitted_at < to_timestamp(%(end)s)
        AND (w.ended_at IS NULL OR w.ended_at > to_timestamp(%(start)s))
), largest AS (
    SELECT greatest(1000, coalesce(max(size_milli), 0)) AS node_milli FROM (
        SELECT 1000 * count(*) AS size_milli FROM scheduler_device d JOIN scheduler_node n ON n.id = d.node_id
        WHERE n.cluster_id = %(cluster)s GROUP BY d.node_id
    ) sizes
), holding AS (
    SELECT a.id, r.number::bigint AS number, r.size_milli,
        extract(epoch FROM r.started_at)::bigint AS begins,
        coalesce(extract(epoch FROM r.ended_at)::bigint, a.ends) AS ends
    FROM asking a JOIN scheduler_run r ON r.workload_id = a.id
    UNION ALL
    SELECT id, 1::bigint << 40, NULL, ends, ends FROM asking
), gaps AS (
    SELECT id, lag(ends) OVER each AS begins, begins AS ends, max(size_milli) OVER (PARTITION BY id) AS held_milli
    FROM holding WINDOW each AS (PARTITION BY id ORDER BY number)
), on_hold AS (
    SELECT a.id, extract(epoch FROM d.at)::bigint AS begins,
        coalesce(extract(epoch FROM (
            SELECT min(later.at) FROM scheduler_decision later WHERE later.workload_id = a.id AND later.id > d.id
        ))::bigint, a.ends) AS ends
    FROM asking a JOIN scheduler_decision d ON d.workload_id = a.id AND d.action = 'hold'
), wishes AS (
    SELECT a.path, coalesce(g.held_milli, CASE WHEN a.size_milli <= l.node_milli THEN a.size_milli
            ELSE (a.size_milli + l.node_milli - 1) / l.node_milli * l.node_milli END) AS amount,
        coalesce(g.begins, a.begins) AS begins, g.ends
    FROM gaps g JOIN asking a ON a.id = g.id CROSS JOIN largest l
    UNION ALL
    SELECT a.path, -CASE WHEN a.size_milli <= l.node_milli THEN a.size_milli
            ELSE (a.size_milli + l.node_milli - 1) / l.node_milli * l.node_milli END, h.begins, h.ends
    FROM on_hold h JOIN asking a ON a.id = h.id CROSS JOIN largest l
)"""

_USAGE_HOURS = (
    _CLUSTER_HOURS
    + ","
    + _DEMAND
    + """, used AS (
    SELECT path, kind, size_milli AS amount, begins, ends FROM runs
    UNION ALL
    SELECT path, 'wish', amount, begins, ends FROM wishes
), used_hours AS (
    SELECT path, kind, hour,
        sum(amount * (least(ends, hour + 3600, %(end)s) - greatest(begins, hour, %(start)s))) AS milli_s
    FROM used, generate_series(greatest(begins, %(start)s) / 3600 * 3600, least(ends, %(end)s) - 1, 3600) hour
    GROUP BY path, kind, hour
), by_node AS (
    SELECT node, hour,
        coalesce(sum(milli_s) FILTER (WHERE kind = 'charged'), 0)::bigint AS charged_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind IN ('credited', 'uncharged')), 0)::bigint AS uncharged_milli_s,
        coalesce(sum(milli_s) FILTER (WHERE kind IN ('charged', 'credited', 'wish')), 0)::bigint AS demand_milli_s
    FROM used_hours, unnest(path) node GROUP BY node, hour
), shares AS (
    SELECT * FROM unnest(%(nodes)s::bigint[], %(begins)s::bigint[], %(untils)s::bigint[],
        %(numerators)s::numeric[], %(denominators)s::numeric[]) AS s(node, begins, ends, numerator, denominator)
), entitled AS (
    SELECT s.node, c.hour,
        div(s.numerator * c.capacity_milli_s, s.denominator)::bigint AS entitled_milli_s,
        div(s.numerator * c.healthy_milli_s, s.denominator)::bigint AS available_milli_s
    FROM shares s JOIN cluster_hours c ON c.hour >= s.begins AND c.hour < s.ends
    WHERE c.capacity_milli_s > 0
), usage_hours AS (
    SELECT coalesce(u.node, e.node) AS node, coalesce(u.hour, e.hour) AS hour,
        coalesce(charged_milli_s, 0) AS charged_milli_s, coalesce(uncharged_milli_s, 0) AS uncharged_milli_s,
        coalesce(demand_milli_s, 0) AS demand_milli_s, coalesce(entitled_milli_s, 0) AS entitled_milli_s,
        coalesce(available_milli_s, 0) AS available_milli_s
    FROM by_node u FULL JOIN entitled e ON e.node = u.node AND e.hour = u.hour
)"""
)

_CLUSTER_FIELDS = ("capacity_milli_s", "healthy_milli_s", "held_milli_s", "held_unfit_milli_s", "uncharged_milli_s")
_USAGE_FIELDS = ("charged_milli_s", "uncharged_milli_s", "demand_milli_s", "entitled_milli_s", "available_milli_s")

FILL_CLUSTER_HOURS = f"""{_CLUSTER_HOURS}
INSERT INTO scheduler_clusterhour (cluster_id, hour, {", ".join(_CLUSTER_FIELDS)})
SELECT %(cluster)s, to_timestamp(hour), {", ".join(_CLUSTER_FIELDS)} FROM cluster_hours"""

FILL_USAGE_HOURS = f"""{_USAGE_HOURS}
INSERT INTO scheduler_usagehour (cluster_id, node_id, hour, {", ".join(_USAGE_FIELDS)})
SELECT %(cluster)s, node, to_timestamp(hour), {", ".join(_USAGE_FIELDS)} FROM usage_hours"""


def _compare(parts: str, fresh: str, table: str, nodes: tuple[str, str] | None, fields: tuple[str, ...]) -> str:
    """Rows (node, hour, field, cached, computed) where the table isn't what the parts say.

    `nodes` are the columns that name the budget node, in the computed rows and in the table; None where there is none.
    They are compared as equal, which can be looked up: else each node of an hour would be laid beside each other one.
    """
    node = f"coalesce({nodes[0]}, {nodes[1]})" if nodes else "NULL::bigint"
    same = f" AND {nodes[0]} = {nodes[1]}" if nodes else ""
    pairs = ", ".join(f"('{field}', cached.{field}, fresh.{field})" for field in fields)
    return f"""{parts}
SELECT {node}, coalesce(fresh.hour, cached.unix), pair.*
FROM {fresh} fresh FULL JOIN (
    SELECT t.*, extract(epoch FROM t.hour)::bigint AS unix FROM {table} t
    WHERE t.cluster_id = %(cluster)s AND t.hour >= to_timestamp(%(start)s) AND t.hour < to_timestamp(%(end)s)
) cached ON cached.unix = fresh.hour{same}
CROSS JOIN LATERAL (VALUES {pairs}) pair(field, cached, computed)
WHERE pair.cached IS DISTINCT FROM pair.computed
ORDER BY 2, 1, 3"""


COMPARE_CLUSTER_HOURS = _compare(_CLUSTER_HOURS, "cluster_hours", "scheduler_clusterhour", None, _CLUSTER_FIELDS)
COMPARE_USAGE_HOURS = _compare(
    _USAGE_HOURS, "usage_hours", "scheduler_usagehour", ("fresh.node", "cached.node_id"), _USAGE_FIELDS
)
COMPARE_ROOT = """
SELECT u.node_id, extract(epoch FROM c.hour)::bigint, 'held_milli_s', c.held_milli_s,
    coalesce(u.charged_milli_s + u.uncharged_milli_s, 0)
FROM scheduler_clusterhour c
LEFT JOIN scheduler_usagehour u ON u.cluster_id = c.cluster_id AND u.hour = c.hour
    AND u.node_id = (SELECT id FROM budgets_budgetnode WHERE parent_id IS NULL)
WHERE c.cluster_id = %(cluster)s AND c.hour >= to_timestamp(%(start)s) AND c.hour < to_timestamp(%(end)s)
    AND c.held_milli_s <> coalesce(u.charged_milli_s + u.uncharged_milli_s, 0)
ORDER BY 2"""
