"""What must never be in the database, by its own reckoning."""

from django.db import connection


def devices_held_twice() -> list[tuple[int, int]]:
    """Pairs of holdings of one device at one time, at most five."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.id, b.id FROM scheduler_holding a JOIN scheduler_run ar ON ar.id = a.run_id
            JOIN scheduler_holding b ON b.device_id = a.device_id AND b.id > a.id
            JOIN scheduler_run br ON br.id = b.run_id
            WHERE tstzrange(ar.started_at, ar.ended_at) && tstzrange(br.started_at, br.ended_at) LIMIT 5
            """
        )
        return cursor.fetchall()
