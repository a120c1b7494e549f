"""What failure classes are called, as they are stored and said."""

from collections.abc import Mapping

from django.utils.translation import gettext_noop

from scheduler.failures import FailureClass as C
from scheduler.failures import Origin

CLASSES: Mapping[str, str] = {
    C.IMPORT: gettext_noop("a module or a library is missing"),
    C.SYNTAX: gettext_noop("its program has a syntax error"),
    C.COMMAND: gettext_noop("its command is not there, or cannot be run"),
    C.ARGUMENTS: gettext_noop("its program does not take these arguments"),
    C.MISSING_FILE: gettext_noop("a file or a folder is missing"),
    C.PERMISSION: gettext_noop("something is not permitted to it"),
    C.QUOTA: gettext_noop("a quota of storage is used up"),
    C.DEVICE: gettext_noop("its program does not fit the devices that it has"),
    C.GPU_MEMORY: gettext_noop("the memory of a GPU was too small for it"),
    C.HOST_MEMORY: gettext_noop("main memory was too small for it"),
    C.CODE: gettext_noop("its program raised an error"),
    C.COLLECTIVE: gettext_noop("its ranks lost touch with each other"),
    C.RENDEZVOUS: gettext_noop("its ranks did not find each other"),
    C.NETWORK: gettext_noop("a network connection failed"),
    C.STORAGE: gettext_noop("a file system failed"),
    C.DISK_FULL: gettext_noop("a disk was full"),
    C.GPU_FAULT: gettext_noop("a GPU failed"),
    C.CRASH: gettext_noop("it crashed"),
    C.KILLED: gettext_noop("it was killed"),
    C.UNKNOWN: gettext_noop("nothing that it printed says why"),
}
"""What happened, as a part of a sentence."""

ORIGINS: Mapping[str, str] = {
    Origin.OWN: gettext_noop("its own: it would happen again"),
    Origin.INFRASTRUCTURE: gettext_noop("of the infrastructure: another try may pass"),
    Origin.UNKNOWN: gettext_noop("not known: another try may pass"),
}
"""Whose it is, and whether trying again can help."""

FAILED = gettext_noop("It failed.")
UNJUDGED = gettext_noop("It failed. Why is looked at before it is tried again.")
AGAIN = gettext_noop("It failed ({words}), and is tried again: {number} of {number_2}.")
NOT_AGAIN = gettext_noop("{text} It is not tried again ({words}): that would happen again.")
TRIED = gettext_noop("{text} It had been tried again {number} of {number_2} times.")
ALIKE = gettext_noop(
    "Held: it failed as another run of its owner did within 24 hours ({words}). Release it to try again, or cancel it."
)
RELEASED = gettext_noop("Released by a person, and tried again: {number} of {number_2}.")
CANARY_FAILED = gettext_noop("Held: its canary did not pass. Look at why; then release it, or cancel it.")
CANARY_WAITS = gettext_noop("Waiting: it enters the queue when its canary {code} has passed.")
CANARY_RELEASED = gettext_noop("Released by a person, though its canary had not passed.")
MESSAGES = (
    gettext_noop("{code} has failed with exit status {number}, and is tried again"),
    gettext_noop("{code} has failed, and is tried again"),
    gettext_noop("{code} has failed as before, and is held: release or cancel it"),
)
SENTENCES = (
    FAILED,
    UNJUDGED,
    AGAIN,
    NOT_AGAIN,
    TRIED,
    ALIKE,
    RELEASED,
    CANARY_FAILED,
    CANARY_WAITS,
    CANARY_RELEASED,
    *MESSAGES,
    *CLASSES.values(),
)
