"""What the last check of the books found."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy


class BooksCheck(models.Model):
    """The last check of one book: when, how much was compared, and what differed (a sentence each; none is the tick on
    the pages). `cluster_name` is empty for a book that has no cluster.
    """

    class Book(models.TextChoices):
        """What is compared with what."""

        SHARES = "shares", gettext_lazy("shares: the ledger, and what is in force on every date")
        SUMS = "sums", gettext_lazy("sums: at most 100 % of each parent on every date")
        TREE = "tree", gettext_lazy("tree: names and parents, and the ledger")
        USAGE = "usage", gettext_lazy("usage: the hourly figures, and the stored runs")

    book = models.CharField(max_length=8, choices=Book)
    cluster_name = models.CharField(max_length=40, blank=True)
    checked_at = models.DateTimeField()
    compared = models.PositiveIntegerField(help_text="rows, or hours")
    differing = models.PositiveIntegerField(default=0)
    differences = models.JSONField(default=list, help_text="the first of them, in words")

    class Meta:
        ordering = ["book", "cluster_name"]
        constraints = [models.UniqueConstraint(fields=["book", "cluster_name"], name="one_check_of_a_book")]

    def __str__(self) -> str:
        return f"{self.book} {self.cluster_name}: {self.differing} differ"
