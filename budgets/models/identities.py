"""Who people are to a sign-in service elsewhere, and the roles that its word gives them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from budgets.models.people import Person
from budgets.models.roles import RoleGrant


class Identity(models.Model):
    """A person as an OpenID provider knows them: by a subject that it gives to nobody else, ever.

    Names and addresses of e-mail change and are given anew; they are never what a person is known by.
    """

    person = models.ForeignKey(Person, models.PROTECT, related_name="identities")
    issuer = models.URLField(max_length=300)
    subject = models.CharField(max_length=255)
    linked_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(null=True, blank=True, help_text="when they last signed in by it")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_person_for_a_subject"),
            models.UniqueConstraint(fields=["issuer", "person"], name="one_subject_for_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class ClaimedRole(models.Model):
    """A role that holds because the provider lists its person in a group, and ends when it no longer does. Roles that
    somebody gave by hand are not among these.
    """

    grant = models.OneToOneField(RoleGrant, models.CASCADE, related_name="claimed")
    identity = models.ForeignKey(Identity, models.CASCADE, related_name="roles")
    group = models.CharField(max_length=255)

    def __str__(self) -> str:
        return f"{self.grant} by {self.group}"
