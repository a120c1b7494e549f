"""Django's entry for the scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """What runs where, and why."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register rights, what a change of the budget tree does to workloads, and what carries out which clusters."""
        from budgets.models import Cluster
        from budgets.sentences import add, add_behind
        from scheduler import authority, sentences  # noqa: F401 (importing it registers its actions)
        from scheduler.services import agents, executors, leaves, simulation
        from scheduler.services.slurm import executor as slurm

        add(sentences.PATTERNS)
        add_behind((*sentences.LOCALITY, *sentences.PARTS))
        leaves.listen()
        executors.register(Cluster.Executor.AGENT, agents.Agents())
        executors.register(Cluster.Executor.SIMULATED, simulation.Simulated())
        executors.register(Cluster.Executor.SLURM, slurm.Slurm())
        executors.register(Cluster.Executor.ADVISED, slurm.Slurm())
