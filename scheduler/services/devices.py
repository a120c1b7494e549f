"""Which devices of a node a run gets: whole ones from the lowest index up; a fraction where it fits best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.models import WHOLE_DEVICE_MILLI, Device


class FreeDevices:
    """What is free on some nodes, while a plan is carried out. Amounts in thousandths of a device."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        """Read the nodes' devices; the caller holds the cluster's writers' lock."""
        self._free: dict[int, list[tuple[int, int, int]]] = {}
        rows = Device.objects.filter(node__in=set(node_ids)).order_by("node_id", "index")
        for pk, node_id, index, held_milli in rows.values_list("pk", "node_id", "index", "held_milli"):
            self._free.setdefault(node_id, []).append((index, pk, WHOLE_DEVICE_MILLI - held_milli))

    def take(self, amounts: Mapping[int, int]) -> list[tuple[int, int, int]] | None:
        """Take these amounts by node, all of them or nothing.

        Returns:
            (node, device, amount) for each device; None where they are not free.
        """
        chosen: list[tuple[int, int, int]] = []
        for node_id, amount_milli in sorted(amounts.items()):
            found = self._choose(node_id, amount_milli)
            if found is None:
                return None
            chosen += [(node_id, device, milli) for device, milli in found]
        for node_id, device, milli in chosen:
            self._free[node_id] = [
                (index, pk, free - milli if pk == device else free) for index, pk, free in self._free[node_id]
            ]
        return chosen

    def _choose(self, node_id: int, amount_milli: int) -> list[tuple[int, int]] | None:
        devices = self._free.get(node_id, [])
        if amount_milli < WHOLE_DEVICE_MILLI:
            fitting = [(free, index, pk) for index, pk, free in devices if free >= amount_milli]
            return [(min(fitting)[2], amount_milli)] if fitting else None
        whole = [pk for _, pk, free in devices if free == WHOLE_DEVICE_MILLI][: amount_milli // WHOLE_DEVICE_MILLI]
        return [(pk, WHOLE_DEVICE_MILLI) for pk in whole] if len(whole) * WHOLE_DEVICE_MILLI == amount_milli else None
