"""My messages, and how I want to be told. Everybody sees and changes their own only."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages as banners
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.errors import InputError
from budgets.models import Kind, Message, MessageChoice, Person, Webhook
from budgets.services import messages
from portal.forms.messages import ChoicesForm, ReadForm
from portal.pages import Page, choice, render_page, whole_number

PER_PAGE = 50
SHOWN = {"all": gettext_lazy("All"), "new": gettext_lazy("New")}


class Messages(Page):
    """What I was told, the latest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of it."""
        person: Person = request.user  # type: ignore[assignment]
        rows = Message.objects.filter(person=person).order_by("-pk")
        show = choice(request, "show", SHOWN, "all")
        kind = choice(request, "kind", {"": "", **dict(Kind.choices)}, "")
        newest = rows.values_list("pk", flat=True).first()
        fresh = rows.filter(read_at=None).count()
        rows = rows.filter(read_at=None) if show == "new" else rows
        pages = Paginator(rows.filter(kind=kind) if kind else rows, PER_PAGE)
        number = min(whole_number(request, "page", 1), pages.num_pages)
        context = {
            "here": "messages",
            "rows": pages.page(number).object_list,
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
            "fresh": fresh,
            "newest": newest,
            "show": show,
            "shown": SHOWN,
            "kind": kind,
            "kinds": Kind.choices,
            "has_mail": has_mail(person),
            "has_way": has_mail(person) or webhooks_of(person) > 0,
        }
        return render_page(request, "messages", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """All up to what was shown is read."""
        form = ReadForm(request.POST)
        if not form.is_valid():
            raise BadRequest(gettext("up_to: must be the number of a message"))
        messages.mark_read(person=request.user, up_to=form.cleaned_data["up_to"])  # type: ignore[arg-type]
        return HttpResponseRedirect(reverse("messages"))


class Choices(Page):
    """How I want to be told of each kind of thing, and where."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form, with what holds now."""
        return self.show(request, ChoicesForm(initial=modes_of(request.user)))  # type: ignore[arg-type]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep what was chosen."""
        form = ChoicesForm(request.POST)
        if form.is_valid():
            try:
                messages.choose(person=request.user, modes=form.modes())  # type: ignore[arg-type]
            except InputError as error:
                form.take(error)
            else:
                banners.info(request, gettext("You are told as you chose, from the next message on."))
                return HttpResponseRedirect(reverse("message_choices"))
        return self.show(request, form, 400)

    def show(self, request: HttpRequest, form: ChoicesForm, status: int = 200) -> HttpResponse:
        """The page."""
        person: Person = request.user  # type: ignore[assignment]
        context = {
            "here": "messages",
            "form": form,
            "rows": [form[kind.value] for kind in Kind],
            "modes": Message.Mode.choices,
            "has_server": settings.HAS_MAIL_SERVER,
            "digest_hour": settings.DIGEST_HOUR,
            "webhooks": webhooks_of(person),
        }
        return render_page(request, "message_choices", context, status=status)


def has_mail(person: Person) -> bool:
    """Whether the person's messages can go out by e-mail."""
    return settings.HAS_MAIL_SERVER and bool(person.email)


def webhooks_of(person: Person) -> int:
    """How many webhooks the person's messages are posted to."""
    return Webhook.objects.filter(person=person, scope=Webhook.Scope.PERSON, turned_off_at=None).count()


def modes_of(person: Person) -> dict[str, str]:
    """How the person is told of each kind now."""
    chosen = dict(MessageChoice.objects.filter(person=person).values_list("kind", "mode"))
    return {kind.value: chosen.get(kind.value, str(Message.Mode.NOW)) for kind in Kind}
