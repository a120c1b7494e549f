"""Patterns of what the advisor says of a place (scheduler/advisor/rules), by which other languages say it."""

from django.utils.translation import gettext_noop

ADVICE = (
    # loading
    gettext_noop("num_workers is {words}: known at run time only."),
    gettext_noop("This loader has no num_workers: the GPU waits while each batch is loaded."),
    gettext_noop("This loader has num_workers=0: the GPU waits while each batch is loaded."),
    gettext_noop("pin_memory is {words}: known at run time only."),
    gettext_noop("This loader has no pin_memory, and its batches go to a GPU."),
    gettext_noop("This loader has pin_memory=False, and its batches go to a GPU."),
    gettext_noop("The training loop waits here until the batch is copied."),
    # batches
    gettext_noop("The batch size is {words}: known at run time only."),
    gettext_noop("This loader has no batch_size, so batches of 1."),
    gettext_noop("The batch size is {number}, below {number_2}."),
    gettext_noop("Evaluation uses the training's batch size, {name}; without gradients more fits."),
    gettext_noop("Batches of {number} on {number_2} nodes, and gradients are exchanged after each."),
    # checkpoints and uploads
    gettext_noop("The model is saved in every turn of the inner loop."),
    gettext_noop("The model is saved to {name}, and the GPU waits."),
    gettext_noop("Where the model is saved is {words}: known at run time only."),
    gettext_noop("The training waits here until {name} has finished."),
    # devices
    gettext_noop(
        "Nothing here uses more than one of {number} GPUs; the launch script starts several programs side by side."
    ),
    gettext_noop("Nothing here uses more than one of {number} GPUs; not all files could be read."),
    gettext_noop("Nothing here uses more than one of {number} GPUs; {name} was not given, and may do so."),
    gettext_noop("Nothing in the package uses more than one of {number} GPUs."),
    gettext_noop("It starts {number} processes on {number_2} GPUs."),
    gettext_noop("The world size is {number}, and {number_2} GPUs are asked for."),
    gettext_noop("How many processes it starts is {words}: known at run time only."),
    gettext_noop("on each of an unknown number of nodes"),
    gettext_noop("{number} processes for {number_2} GPUs in all: {number_3} stay idle."),
    gettext_noop("{number} processes for {number_2} GPUs in all: processes share GPUs."),
    gettext_noop("{number} processes for {number_2} GPUs on each node: {number_3} stay idle."),
    gettext_noop("{number} processes for {number_2} GPUs on each node: processes share GPUs."),
    gettext_noop("What CUDA_VISIBLE_DEVICES holds is known at run time only."),
    gettext_noop("CUDA_VISIBLE_DEVICES hides every GPU: the work runs on the CPU."),
    gettext_noop("CUDA_VISIBLE_DEVICES shows {number} of {number_2} GPUs."),
    gettext_noop("{name} was not given, and nothing else here uses a GPU."),
    gettext_noop("Nothing here uses a GPU, but not all files could be read."),
    gettext_noop("Nothing in the package imports a library that uses GPUs."),
    # holding and installing
    gettext_noop("{name} waits for people while GPUs are held."),
    gettext_noop("It sleeps again and again after the work while GPUs are held."),
    gettext_noop("It sleeps {number} s after the work while GPUs are held."),
    gettext_noop("How long it sleeps is known at run time only."),
    gettext_noop("It sleeps {number} s while GPUs are held."),
    gettext_noop("This loop never ends and does no work while GPUs are held."),
    gettext_noop("{name} runs before the work begins, while GPUs are held."),
    gettext_noop("The program itself runs {name}, while GPUs are held."),
    # preparing
    gettext_noop("{name} prepares each item, and nothing here says with how many workers."),
    gettext_noop("{name} prepares each item, in the training process itself."),
    gettext_noop("{name} runs in the training loop, between steps."),
    gettext_noop("The CPU goes over a table row by row while GPUs are held."),
    gettext_noop("This pipeline has no .{name}()."),
    gettext_noop("This .map() has no num_parallel_calls: one item after the other."),
    # over the network
    gettext_noop("It reads from {name}, over the network."),
    gettext_noop("Where it reads from is {words}: known at run time only."),
    gettext_noop("It downloads what is not there yet."),
    gettext_noop("{name} fetches from elsewhere while GPUs are held."),
    gettext_noop("{name} downloads while GPUs are held."),
    gettext_noop("It fetches over the network while GPUs are held."),
    gettext_noop("{name} is downloaded while GPUs are held."),
    gettext_noop("What it loads is {words}: known at run time only."),
    gettext_noop("{name} makes the host wait for the GPU in every step."),
    # what was not read
    gettext_noop("It starts {name}, which was not among the files: nothing is known about it."),
    gettext_noop("It and what follows was not read: more than {number} files."),
    gettext_noop("It and what follows was not read: the files have more than {number} words in all."),
    gettext_noop("It was not read: {number} MB; a file may have {number_2} MB."),
    gettext_noop("It was not read: the files have more than {number} MB in all."),
    gettext_noop("It was not read: it is no text."),
    gettext_noop("It was not read: this line has {number} characters."),
    gettext_noop("It was not read: neither Python (.py) nor a launch script (.sh)."),
    gettext_noop("It was not read: it is written for another version of Python: {name}."),
    gettext_noop("It was not read: it is not Python 3.11, or has an error: {name}."),
    gettext_noop("It was not read: it is nested too deeply, or holds what Python can't."),
    # what a value is
    gettext_noop("in its options"),
    gettext_noop("an expression"),
    # after the fact
    gettext_noop(
        "Its GPUs were busy for {number} % of the time, and at most {number_2} % of a GPU's memory was in use."
    ),
)
