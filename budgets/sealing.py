"""Secrets at rest: what the database keeps of a secret is sealed, so that a dump, a backup or a replica tells none.

The keys come from the settings (`SEALING_KEYS`), never from the database. The first key seals; every key opens, so a
new one is put in front and `manage.py seal_again` seals all anew, before the old one is taken away. For each purpose (a
column) a key of its own is derived, so that what was sealed in one place can't be moved to another.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

MARK = "sealed1:"
"""What a sealed text begins with, and which way of sealing it is."""
KEY_BYTES = 32


class CannotSeal(Exception):
    """There is no key that would last."""


class CannotOpen(Exception):
    """None of our keys opens it: it was sealed with one that the settings no longer name, or it was tampered with."""


def seal(text: str, purpose: str) -> str:
    """The text, sealed with the first key; no text stays none. Two seals of one text differ.

    Raises:
        CannotSeal: the settings name no key.
    """
    return f"{MARK}{_sealer(_keys(), purpose).encrypt(text.encode()).decode()}" if text else ""


def open_sealed(sealed: str, purpose: str) -> str:
    """What `seal` was given.

    Raises:
        CannotOpen: it was sealed with none of our keys, for another purpose, or not at all.
    """
    if not sealed:
        return ""
    if not is_sealed(sealed):
        raise CannotOpen(f"{purpose}: this was never sealed")
    try:
        return _sealer(_keys(), purpose).decrypt(sealed.removeprefix(MARK).encode()).decode()
    except InvalidToken:
        raise CannotOpen(
            f"{purpose}: none of the keys in ALLOTMENT_SEALING_KEYS opens this; put back the one that sealed it"
        ) from None


def is_sealed(text: object) -> bool:
    """Whether it looks as `seal` makes it."""
    return isinstance(text, str) and text.startswith(MARK)


def is_by_first_key(sealed: str, purpose: str) -> bool:
    """Whether the key that seals now has sealed it: else an older one, which can be taken away only when none has."""
    if not sealed:
        return True
    try:
        _sealer(_keys()[:1], purpose).decrypt(sealed.removeprefix(MARK).encode())
    except InvalidToken:
        return False
    return True


def _keys() -> tuple[str, ...]:
    keys: Sequence[str] = settings.SEALING_KEYS
    if not keys:
        raise CannotSeal("secrets are stored sealed: set ALLOTMENT_SEALING_KEYS_FILE (or SECRET_KEY_FILE)")
    return tuple(keys)


@lru_cache(maxsize=64)
def _sealer(keys: tuple[str, ...], purpose: str) -> MultiFernet:
    return MultiFernet([Fernet(_derived(key, purpose)) for key in keys])


def _derived(key: str, purpose: str) -> bytes:
    derive = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"allotment:{purpose}".encode())
    return base64.urlsafe_b64encode(derive.derive(key.encode()))
