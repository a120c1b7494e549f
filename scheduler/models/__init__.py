"""What runs where, and why: nodes, workloads, runs, decisions, the event log, and simulations.

Amounts are whole thousandths of the cluster's unit (`_milli`), instants whole seconds (the column type rounds
nothing away: services floor first). Rows change only through `scheduler.services` and the loop; what must
always hold is a constraint of the database too. Usage is a function of runs; `UsageHour` is a cache of it.
"""

from scheduler.models.advice import Advice, AdviceFinding, BlockingRule
from scheduler.models.clusters import Device, MaintenanceWindow, Node, NodeSpell, PolicyVersion, Rack, TreeVersion
from scheduler.models.emergencies import EmergencyStop
from scheduler.models.execution import (
    JoinToken,
    PortalEpoch,
    Repair,
    RepairHook,
    RolloutStep,
    SavedDirectory,
)
from scheduler.models.fields import WHOLE_DEVICE_MILLI, SecondField, TimestampRange
from scheduler.models.forecasts import Forecast, ForecastStart
from scheduler.models.passes import Pass
from scheduler.models.record import ClusterHour, Decision, Event, UsageHour
from scheduler.models.simulations import Simulation, SimulationPart
from scheduler.models.slurm import SlurmAccount, SlurmJob, SlurmLink, SlurmOrder
from scheduler.models.throughput import DevicePeak, ThroughputReport
from scheduler.models.timelines import TimelineTile
from scheduler.models.utilization import UtilizationHour, UtilizationMark
from scheduler.models.work import Claim, Holding, LogChunk, Rank, Reservation, Run, Workload, WorkloadNumber

__all__ = [
    "WHOLE_DEVICE_MILLI",
    "Advice",
    "AdviceFinding",
    "BlockingRule",
    "Claim",
    "ClusterHour",
    "Decision",
    "Device",
    "DevicePeak",
    "EmergencyStop",
    "Event",
    "Forecast",
    "ForecastStart",
    "Holding",
    "JoinToken",
    "LogChunk",
    "MaintenanceWindow",
    "Node",
    "NodeSpell",
    "Pass",
    "PolicyVersion",
    "PortalEpoch",
    "Rack",
    "Rank",
    "Repair",
    "RepairHook",
    "Reservation",
    "RolloutStep",
    "Run",
    "SavedDirectory",
    "SecondField",
    "Simulation",
    "SimulationPart",
    "SlurmAccount",
    "SlurmJob",
    "SlurmLink",
    "SlurmOrder",
    "ThroughputReport",
    "TimelineTile",
    "TimestampRange",
    "TreeVersion",
    "UsageHour",
    "UtilizationHour",
    "UtilizationMark",
    "Workload",
    "WorkloadNumber",
]
