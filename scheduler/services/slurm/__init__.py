"""A Slurm below a cluster: one look at it (`look`), what it says of nodes and jobs, what is asked of it, its accounts.

A cluster of the kind "slurm" has its decisions made here, and Slurm carries them out: jobs wait there held, and are
released onto the nodes that the engine chose. In one of the kind "advised" Slurm decides, by the shares given here.
Nothing here is called in a request: `manage.py slurm_sync` looks, in a loop of its own.
"""
