"""Patterns of what the scheduler stores: reasons, ends of runs, what owners are told (budgets/sentences.py)."""

from django.utils.translation import gettext_noop

from scheduler.advice_sentences import ADVICE
from scheduler.failure_words import SENTENCES as FAILURES

REASONS = (
    # what a pass did
    gettext_noop("Started with {amount} on {places}, charged to its project."),
    gettext_noop("Started with {amount} on {places}, uncharged, on what nobody funded needs."),
    gettext_noop("{code} took its {amount}. It ran unallocated, which any funded workload may take over."),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {code} has the higher priority in the same project."
    ),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {code} has attained less service in the same project."
    ),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {code} is further behind the time that a fair share "
        "would have taken in the same project."
    ),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {name} had been served less of its share than {name_2}."
    ),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {name} held less of its fair share than {name_2}."
    ),
    gettext_noop(
        "{code} took its {amount}. Its contract was over, and {name} had a smaller dominant share than {name_2}."
    ),
    gettext_noop("{code} took its {amount}. Its contract was over, and these had been promised to {code} from now on."),
    gettext_noop("{code} took its {amount}. Its contract was over, and it was in a private cell of {name}."),
    gettext_noop("Stopped: {code} is in maintenance, and its contract was over."),
    gettext_noop("Stopped: {code} is in maintenance, and it ran unallocated."),
    gettext_noop("Stopped: {code} is being drained, and its contract was over."),
    gettext_noop("Stopped: {code} is being drained, and it ran unallocated."),
    gettext_noop("Held: {name} is closed. Move it or cancel it."),
    gettext_noop("Held: {name} has no allocation to charge. It returns to its place when {name} has one again."),
    gettext_noop("Back in its old place in the queue of {name}."),
    gettext_noop("Its plan ended: it was held."),
    gettext_noop("Its plan ended: a node of it is not fit any longer."),
    gettext_noop("Its reservation ended: it was held."),
    gettext_noop("Its reservation ended: a node of it is not fit any longer."),
    # why it waits
    gettext_noop("Waiting: {amount} on {places} are held for it until the runs there have saved and left."),
    gettext_noop("Waiting: {amount} on {places} is held for it until the runs there have saved and left."),
    gettext_noop("Waiting: {amount} on {places} are reserved for it from when contracts there have ended."),
    gettext_noop("Waiting: {amount} on {places} is reserved for it from when contracts there have ended."),
    gettext_noop("It asks for {amount}, which is more than the whole cluster has."),
    gettext_noop("Waiting: too few nodes are fit for {amount}."),
    gettext_noop("Waiting: {amount} are within reach, but its contract would delay a start that was promised."),
    gettext_noop("Waiting: {amount} is within reach, but its contract would delay a start that was promised."),
    gettext_noop("Waiting: {amount} would fit only on nodes that are private to {name} ({number} of them)."),
    gettext_noop(
        "Waiting: {amount} would fit only on nodes that are private to {name} ({number} of them). "
        "Some cells that were granted are not fit and clear yet."
    ),
    gettext_noop("Waiting: {amount} would fit only on nodes that are private to others, {many} ({number} of them)."),
    gettext_noop(
        "Waiting: {amount} would fit only on nodes that are private to others, {many} ({number} of them). "
        "Some cells that were granted are not fit and clear yet."
    ),
    gettext_noop("Waiting: enough {units} are free, but not where {amount} would be together."),
    gettext_noop(
        "Waiting: enough {units} are free, but not where {amount} would be together; enough contracts for {amount} "
        "together end {instant}."
    ),
    gettext_noop("Waiting: parts of {units} are free, but no {unit} has {amount} free."),
    gettext_noop(
        "Waiting: parts of {units} are free, but no {unit} has {amount} free; contracts for so much on one end "
        "{instant}."
    ),
    gettext_noop("Waiting: the {units} that it may have are inside contracts. {amount} come free {instant}."),
    gettext_noop("Waiting: the {units} that it may have are inside contracts. {amount} comes free {instant}."),
    gettext_noop("Waiting: {name} has had less of its share."),
    gettext_noop("Waiting: {many} have had less of their share."),
    gettext_noop("Waiting: {name} holds less of its fair share."),
    gettext_noop("Waiting: {many} hold less of their fair share."),
    gettext_noop("Waiting: {name} has a smaller dominant share."),
    gettext_noop("Waiting: {many} have smaller dominant shares."),
    gettext_noop(
        "Waiting: its budget's maximum of {amount}. {name} has {amount_2}, and this would be {amount_3} more."
    ),
    gettext_noop(
        "Waiting: no {amount} are free, and nobody else has had more of a share that it could take over from."
    ),
    gettext_noop("Waiting: no {amount} is free, and nobody else has had more of a share that it could take over from."),
    gettext_noop("Waiting: no {amount} are free, and unallocated work starts only on what nobody funded needs."),
    gettext_noop("Waiting: no {amount} is free, and unallocated work starts only on what nobody funded needs."),
    gettext_noop("Waiting: no {unit} is free, and nobody else has had more of a share that it could take over from."),
    gettext_noop("Waiting: no {unit} is free, and unallocated work starts only on what nobody funded needs."),
    gettext_noop(
        "Waiting: no {unit} has {amount} free, and nobody else has had more of a share that it could take over from."
    ),
    gettext_noop("Waiting: no {unit} has {amount} free, and unallocated work starts only on what nobody funded needs."),
    gettext_noop("{words} Fit of such a class: {amount}."),
    gettext_noop("{words} Fit of such a class: none."),
    gettext_noop("{words} Free of such a class: {amount}."),
    gettext_noop("{words} Free of such a class: none."),
    gettext_noop("{words} Free of high-end classes: {amount}; {amount_2} of these stay free for work that needs them."),
    gettext_noop("Waiting: it enters the queue when {code} has ended."),
    gettext_noop("Waiting: an operator stopped this cluster ({text}). Nothing starts until it is started again."),
    # at the door
    gettext_noop("Refused: {name} is closed. Submit it elsewhere."),
    gettext_noop("Refused: it asks for more than there is."),
    gettext_noop("Refused: no node has the cores and the memory that it asks for."),
    gettext_noop("Refused: no node is of class {code}; known: {name}."),
    gettext_noop("Refused: no node is of class {code}; no node says its class."),
    gettext_noop("Refused: no node of class {name} has all that it asks for."),
    gettext_noop("Refused: the maximum of {name} is {number}, and it would hold {number_2}."),
    gettext_noop("Refused: no allocation to charge; resubmit with min_runtime 0."),
    gettext_noop("Refused: a contract of {number} s is longer than {number_2} s, the longest."),
    gettext_noop("Refused: a contract of {number} s is shorter than {number_2} s, the shortest."),
)
"""Of the engine (scheduler/engine/explain.py, admission.py, cycle.py), and of the door."""

LOCALITY = (
    gettext_noop("Its {number} nodes are of one rack."),
    gettext_noop("Its {number} nodes could be of any rack."),
    gettext_noop("It is spread over {number} nodes, where {number_2} would do."),
    gettext_noop("It asks for {number} nodes of one rack, and for no others."),
    gettext_noop("It asks for {number} nodes of one rack, later of any rack."),
    gettext_noop("It asks for {number} nodes of one rack, later for up to {number_2}."),
    gettext_noop("It asks for one node, later for up to {number}."),
    gettext_noop("It asks for {number} nodes, later for up to {number_2}."),
    gettext_noop("It may be spread over up to {number} nodes."),
    gettext_noop("It may be spread over up to {number} nodes, later over up to {number_2}."),
)
"""What is added to the reasons of those that start and wait where the policy relaxes (engine: locality.py)."""

PARTS = (gettext_noop("The most that is free on one {unit} is {amount}, on {code}."),)
"""What is added to the reasons of those that wait for a part of one device (engine: explain.py)."""

ENDS = (
    gettext_noop("Stopped by an operator: {text}"),
    gettext_noop("It had run for its whole time limit."),
    gettext_noop("All ranks exited with status 0."),
    gettext_noop("Rank {number} could not be started on {code}."),
    gettext_noop("Node {code} was lost, and rank {number} with it."),
    gettext_noop("Rank {number} on {code} was ended by signal {number_2}."),
    gettext_noop("Rank {number} on {code} exited with status {number_2}."),
    gettext_noop("Finished, as its record says."),
    gettext_noop("told to stop while it was starting up"),
    gettext_noop("{code} has failed"),
    gettext_noop("{code} has failed with exit status {number}"),
    gettext_noop("{code} was preempted by {code_2}"),
    gettext_noop("{code} was preempted by {code_2}; it waits in the queue again"),
    gettext_noop("{code} was ended: {words}; it waits in the queue again"),
    gettext_noop("{code} was ended: {words}"),
    gettext_noop("{code} is restored on {places}"),
    gettext_noop("{code} was saved and left {places}: {words}; it is restored when it runs again"),
    gettext_noop("preempted by {code}"),
    gettext_noop(
        "Shadow: it would start now on {places}. On this cluster decisions are shown, and nothing is started yet."
    ),
    gettext_noop("Node {code} needs a person: {text}"),
    gettext_noop("Tried {number} times without a person. The last try said: {text}"),
    gettext_noop(
        "{name}, hour from {date} {words} UTC, {name_2}: {number} was kept, and the stored runs say {number_2}; it was "
        "computed again"
    ),
    gettext_noop("found in Slurm: nobody had written it down"),
    gettext_noop("cancelled in Slurm"),
    gettext_noop("cancelled in Slurm by hand"),
    gettext_noop("no more in Slurm"),
    gettext_noop("Slurm knows nothing of it any more"),
    gettext_noop("requeued in Slurm by hand"),
    gettext_noop("requeued in Slurm"),
    gettext_noop("told to stop before it began"),
    gettext_noop("Slurm was away or restarted, and did not carry it out"),
    gettext_noop("preempted unallocated"),
    gettext_noop("preempted fair share"),
    gettext_noop("preempted priority"),
    gettext_noop("preempted reservation"),
    gettext_noop("preempted cell"),
    gettext_noop("node lost"),
    gettext_noop("drained"),
    gettext_noop("maintenance"),
    gettext_noop("stuck exit"),
    gettext_noop("stopped by operator"),
    gettext_noop("time limit"),
    gettext_noop("lost"),
)
"""How runs end, and what their owners are told of it."""

SIMULATIONS = (
    gettext_noop("what really happened"),
    gettext_noop("as they were"),
    gettext_noop("as proposed"),
    gettext_noop("variant {number}"),
    gettext_noop("contracts, other knobs"),
    gettext_noop("contracts"),
    gettext_noop("fifo"),
    gettext_noop("priority"),
    gettext_noop("partition"),
    gettext_noop("Shares of {code} on {code_2}: {words}"),
    gettext_noop("Invented laboratories of {number} GPUs, {number_2} d"),
    gettext_noop("The history could not be read; the fault has been logged."),
    gettext_noop("It took longer than {number} minutes."),
    gettext_noop("It broke off; the fault has been logged."),
    gettext_noop("Its worker was lost {number} times."),
    gettext_noop("No worker answered. Is one running for the queue of simulations?"),
    gettext_noop("It took longer than {number} minutes: the cluster is too busy."),
    gettext_noop("Only {number} futures could be drawn in {number_2} s."),
    gettext_noop("The policy was changed once within this time; the replay uses the last one throughout."),
    gettext_noop("The policy was changed {number} times within this time; the replay uses the last one throughout."),
    gettext_noop("1 workload had not ended, or had been cut off: how long they take is the median of their like."),
    gettext_noop(
        "{number} workloads had not ended, or had been cut off: how long they take is the median of their like."
    ),
)
"""Names and notes of simulations."""

WORDS = (
    gettext_noop("starting"),
    gettext_noop("starting up"),
    gettext_noop("after its contract"),
    gettext_noop("running"),
    gettext_noop("leaving"),
    gettext_noop("unreachable"),
    gettext_noop("ended"),
    gettext_noop("queued"),
    gettext_noop("held"),
    gettext_noop("finished"),
    gettext_noop("failed"),
    gettext_noop("preempted"),
    gettext_noop("refused"),
    gettext_noop("debug"),
    gettext_noop("standard"),
    gettext_noop("large"),
    gettext_noop("unallocated"),
    gettext_noop("healthy"),
    gettext_noop("unhealthy"),
    gettext_noop("draining"),
    gettext_noop("down"),
    gettext_noop("better"),
    gettext_noop("worse"),
    gettext_noop("lookback"),
    gettext_noop("longest contract"),
    gettext_noop("reservations"),
    gettext_noop("swap margin"),
)
"""States, classes and knobs, as they are stored."""

POLICIES = (
    gettext_noop("must be one of {name}, not {name_2}"),
    gettext_noop("must be at least {number} s"),
    gettext_noop("{number} is more than min_runtime_max_s, {number_2}"),
    gettext_noop("{number} must be less than lost_after_s, {number_2}, or a workload could run twice"),
    gettext_noop("must be {number} to {number_2} numbers that rise from above {number_3}"),
    gettext_noop("must be up to {number} numbers of at least {number_2}"),
    gettext_noop("must be {number} waits in s that do not fall, or none"),
    gettext_noop("must be up to {number} classes, each once"),
    gettext_noop("{name} is not in class_order"),
    gettext_noop("needs high_end_classes to keep it of"),
    gettext_noop("{number} is more than {number_2}"),
    gettext_noop("{number} is no part of a device; {number_2} is the most"),
)
"""What the engine says of knobs that no cluster could run with."""

PATTERNS = (*REASONS, *ENDS, *SIMULATIONS, *WORDS, *ADVICE, *FAILURES, *POLICIES)
