"""Importing shares from a CSV file: choose it, look at what it would change, apply it."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from budgets.authority import nodes_with
from budgets.errors import InputError
from budgets.models import Person, Role, ShareImport
from budgets.services import imports
from budgets.services.imports import Plan
from portal import formats
from portal.forms.imports import ApplyForm, FileForm
from portal.pages import Once, Page, new_action, render_page, whole_number
from portal.shares_csv import HEADER, MAX_BYTES, NEEDED, read

PER_PAGE = 100
FAULTS_SHOWN = 500


class Imports(Page):
    """The file to be imported, and the imports of the past."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form."""
        return self.show(request, FileForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Read the file and lay it beside the books; nothing is changed yet."""
        form = FileForm(request.POST, request.FILES)
        if not form.is_valid():
            return self.show(request, form, status=400)
        upload = form.cleaned_data["file"]
        try:
            if upload.size > MAX_BYTES:
                raise InputError("file", gettext("is larger than {max_bytes} MiB").format(max_bytes=MAX_BYTES // 2**20))
            rows, unread = read(upload.read())
        except InputError as error:
            form.take(error)
            return self.show(request, form, status=400)
        if unread:
            plan = imports.plan(rows, request.user)  # type: ignore[arg-type]
            plan.faults = sorted([*unread, *plan.faults], key=lambda fault: fault.line)
            return self.show(request, form, plan, upload.name, 400)
        plan, stored = imports.preview(name=upload.name, rows=rows, by=request.user)  # type: ignore[arg-type]
        if stored is None:
            return self.show(request, form, plan, upload.name, 400 if plan.faults else 200)
        return HttpResponseRedirect(reverse("import", args=[stored.pk]))

    def show(
        self, request: HttpRequest, form: FileForm, plan: Plan | None = None, name: str = "", status: int = 200
    ) -> HttpResponse:
        """The page; with the faults of a file, or word that it changes nothing."""
        person: Person = request.user  # type: ignore[assignment]
        context = {
            "here": "imports",
            "form": form,
            "plan": plan,
            "name": name,
            "faults": plan.faults[:FAULTS_SHOWN] if plan else [],
            "header": HEADER,
            "needed": NEEDED,
            "may_change": bool(nodes_with(person, [Role.MANAGER])),
            "earlier": ShareImport.objects.filter(author=person).order_by("-pk")[:10],
        }
        return render_page(request, "imports", context, status=status)


class Import(Once):
    """One file: what it would change, or when it was applied. It is its author's alone."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The preview."""
        return self.show(request, self.stored(request, number))

    def post(self, request: HttpRequest, number: int) -> HttpResponse:
        """Apply it, whole or not at all."""
        stored = self.stored(request, number)
        here = reverse("import", args=[stored.pk])
        form = ApplyForm(request.POST)
        answer, status = self.once(
            request,
            form,
            here,
            lambda count: ngettext(
                "{count} row of {file} applied; the ledger has an entry for each child.",
                "{count} rows of {file} applied; the ledger has an entry for each child.",
                count,
            ).format(count=formats.count(count), file=stored.name),
            lambda said: imports.apply(stored=stored, by=request.user, reason=said["reason"], seen=said["seen"]),  # type: ignore[arg-type]
        )
        return answer or self.show(request, stored, form, status)

    def stored(self, request: HttpRequest, number: int) -> ShareImport:
        """The file of that number.

        Raises:
            Http404: there is none, or it is somebody else's.
        """
        stored = ShareImport.objects.filter(pk=number, author=request.user.pk).first()
        if stored is None:
            raise Http404(gettext("There is no import {number} of yours.").format(number=number))
        return stored

    def show(
        self, request: HttpRequest, stored: ShareImport, form: ApplyForm | None = None, status: int = 200
    ) -> HttpResponse:
        """The page."""
        rows = imports.rows_of(stored)
        plan = imports.plan(rows, request.user) if stored.applied_at is None else Plan(rows)  # type: ignore[arg-type]
        if form is None or status == 409:  # what is shown now is what the next click agrees to
            fresh = {"action": new_action(), "seen": imports.mark_of(plan)}
            said = form.non_field_errors() if form is not None else []
            form = ApplyForm(initial={**fresh, "reason": form.data.get("reason", "") if form is not None else ""})
        else:
            said = []
        pages = Paginator(plan.changes, PER_PAGE)
        number = min(whole_number(request, "page", 1), pages.num_pages)
        context = {
            "here": "imports",
            "stored": stored,
            "plan": plan,
            "faults": plan.faults[:FAULTS_SHOWN],
            "form": form,
            "said": said,
            "changes": pages.page(number).object_list,
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
        }
        return render_page(request, "import", context, status=status)
