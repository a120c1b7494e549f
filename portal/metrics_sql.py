"""What `/metrics` asks the database: each a statement whose cost follows what is open now or ended lately.

None reads history: an index on what is open, on ends, or on a cluster's last passes bounds each of them.
"""

from __future__ import annotations

OPEN = "('queued', 'starting', 'running', 'leaving', 'unreachable', 'held')"
"""As the partial index on open workloads says it."""

CLUSTERS = """
SELECT c.name, c.unit, c.executor, coalesce((p.knobs->>'pass_every_s')::int, %(pass_every_s)s)
FROM budgets_cluster c LEFT JOIN LATERAL (
    SELECT knobs FROM scheduler_policyversion WHERE cluster_id = c.id ORDER BY number DESC LIMIT 1
) p ON true ORDER BY c.position, c.name"""

STOPPED = """
SELECT c.name, EXISTS (SELECT FROM scheduler_emergencystop WHERE cluster_id = c.id AND ended_at IS NULL)::int
FROM budgets_cluster c"""

QUEUE = f"""
SELECT c.name, w.state, w.workload_class, count(*), sum(w.size_milli) / 1000.0,
    extract(epoch FROM %(now)s - min(w.submitted_at))
FROM scheduler_workload w JOIN budgets_cluster c ON c.id = w.cluster_id
WHERE w.state IN {OPEN} GROUP BY 1, 2, 3"""

WAITS = f"""
SELECT c.name, kind, count(*), percentile_disc(ARRAY[0.5, 0.9, 1]) WITHIN GROUP (ORDER BY wait_s)
FROM (
    SELECT cluster_id, workload_class AS kind, extract(epoch FROM first_started_at - submitted_at)::float AS wait_s
    FROM scheduler_workload WHERE state IN {OPEN} AND first_started_at >= %(day_ago)s
    UNION ALL
    SELECT cluster_id, workload_class, extract(epoch FROM first_started_at - submitted_at)::float
    FROM scheduler_workload
    WHERE cluster_id IN (SELECT id FROM budgets_cluster) AND ended_at >= %(day_ago)s
        AND first_started_at >= %(day_ago)s
) w JOIN budgets_cluster c ON c.id = w.cluster_id GROUP BY 1, 2"""
"""What first started within a day is open, or has ended since: so no history is read."""

NODES = """
SELECT c.name, n.health, coalesce(s.state, 'healthy'), n.drain_asked_at IS NOT NULL, count(*),
    coalesce(sum(d.devices), 0), coalesce(sum(d.held_milli), 0) / 1000.0
FROM scheduler_node n JOIN budgets_cluster c ON c.id = n.cluster_id
LEFT JOIN scheduler_nodespell s ON s.node_id = n.id AND s.ended_at IS NULL
LEFT JOIN (
    SELECT node_id, count(*) AS devices, sum(held_milli) AS held_milli FROM scheduler_device GROUP BY node_id
) d ON d.node_id = n.id
WHERE n.retired_at IS NULL GROUP BY 1, 2, 3, 4"""

HEARTBEATS = """
SELECT c.name, percentile_disc(ARRAY[0.5, 0.9, 1]) WITHIN GROUP (ORDER BY age_s),
    count(*) FILTER (WHERE age_s > coalesce((p.knobs->>'heartbeat_timeout_s')::int, %(heartbeat_timeout_s)s))
FROM (
    SELECT cluster_id, greatest(0, extract(epoch FROM %(now)s - heartbeat_at))::float AS age_s
    FROM scheduler_node WHERE retired_at IS NULL AND heartbeat_at IS NOT NULL
) h JOIN budgets_cluster c ON c.id = h.cluster_id
LEFT JOIN LATERAL (
    SELECT knobs FROM scheduler_policyversion WHERE cluster_id = c.id ORDER BY number DESC LIMIT 1
) p ON true GROUP BY 1"""

RUNS = """
SELECT c.name, r.state, r.funded, count(*), sum(r.size_milli) / 1000.0
FROM scheduler_run r JOIN budgets_cluster c ON c.id = r.cluster_id
WHERE NOT r.state = 'ended' GROUP BY 1, 2, 3"""

ENDS = """
SELECT c.name, r.end_reason, count(*)
FROM scheduler_run r JOIN budgets_cluster c ON c.id = r.cluster_id
WHERE r.cluster_id IN (SELECT id FROM budgets_cluster) AND r.ended_at >= %(hour_ago)s GROUP BY 1, 2"""

FAILED_RANKS = """
SELECT c.name, count(*)
FROM scheduler_run r JOIN scheduler_rank k ON k.run_id = r.id AND k.state = 'failed'
JOIN budgets_cluster c ON c.id = r.cluster_id
WHERE r.cluster_id IN (SELECT id FROM budgets_cluster) AND r.ended_at >= %(hour_ago)s GROUP BY 1"""

LAST_PASSES = """
SELECT c.name, p.at, p.load_ms, p.decide_ms, p.apply_ms
FROM budgets_cluster c JOIN LATERAL (
    SELECT at, load_ms, decide_ms, apply_ms FROM scheduler_pass WHERE cluster_id = c.id ORDER BY id DESC LIMIT 1
) p ON true"""

RECENT_PASSES = """
SELECT c.name, percentile_disc(ARRAY[0.5, 0.9, 1]) WITHIN GROUP (ORDER BY p.ms)
FROM budgets_cluster c JOIN LATERAL (
    SELECT load_ms + decide_ms + apply_ms AS ms FROM scheduler_pass WHERE cluster_id = c.id ORDER BY id DESC LIMIT 100
) p ON true GROUP BY 1"""

SLURMS = """
SELECT c.name, s.failing_since IS NULL AND s.contact_at IS NOT NULL,
    extract(epoch FROM %(now)s - s.contact_at)::float, jsonb_array_length(s.troubles)
FROM scheduler_slurmlink s JOIN budgets_cluster c ON c.id = s.cluster_id"""

REPAIRS = """
SELECT c.name, r.state, count(*)
FROM scheduler_repair r JOIN scheduler_node n ON n.id = r.node_id JOIN budgets_cluster c ON c.id = n.cluster_id
WHERE r.ended_at IS NULL GROUP BY 1, 2"""

FORECASTS = """
SELECT c.name, f.state, extract(epoch FROM %(now)s - coalesce(f.ended_at, f.asked_at))::float
FROM budgets_cluster c JOIN LATERAL (
    SELECT state, asked_at, ended_at FROM scheduler_forecast WHERE cluster_id = c.id ORDER BY id DESC LIMIT 1
) f ON true"""

SIMULATIONS = """
SELECT p.state, count(*), extract(epoch FROM %(now)s - min(s.made_at))::float
FROM scheduler_simulation s JOIN scheduler_simulationpart p ON p.simulation_id = s.id
WHERE s.state IN ('waiting', 'running') AND p.state IN ('waiting', 'running') GROUP BY 1"""

MESSAGES = """
SELECT mode, tries >= %(tries_max)s, count(*), extract(epoch FROM %(now)s - min(at))::float
FROM budgets_message WHERE sent_at IS NULL AND NOT mode = 'off' GROUP BY 1, 2"""

DELIVERIES = """
SELECT count(*), extract(epoch FROM %(now)s - min(made_at))::float FROM budgets_webhookdelivery
WHERE state = 'waiting'"""

WEBHOOKS = """
SELECT scope, turned_off_at IS NOT NULL, count(*) FROM budgets_webhook GROUP BY 1, 2"""

DECISIONS_WAITING = """
SELECT 'request', count(*) FROM budgets_request WHERE state = 'submitted'
UNION ALL SELECT 'reallocation', count(*) FROM budgets_reallocation WHERE state = 'submitted'"""

BOOKS = """
SELECT book, cluster_name, differing, extract(epoch FROM checked_at)::float FROM budgets_bookscheck"""
