"""My webhooks, and the organisation's for those who see to them: set up, changed, tried, and what was posted there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import messages as banners
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Person, Webhook, WebhookDelivery
from budgets.services import deliveries, webhook_settings, webhooks
from portal.forms.webhooks import ButtonForm, WebhookForm
from portal.pages import Once, Page, choice, new_action, render_page, spend, spent_on, status_of, whole_number

PER_PAGE = 50
STATES = {"": gettext_lazy("All"), **dict(WebhookDelivery.State.choices)}
PROOF = {
    "signature_header": webhooks.SIGNATURE_HEADER,
    "id_header": webhooks.ID_HEADER,
    "event_header": webhooks.EVENT_HEADER,
    "minutes": webhooks.REPLAY_WINDOW_S // 60,
    "answer_s": webhooks.ANSWER_S,
}


class Webhooks(Page):
    """All that are mine to see."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """A short list: there can't be many."""
        person: Person = request.user  # type: ignore[assignment]
        rows = list(webhook_settings.visible_to(person))
        context = {
            "here": "messages",
            "mine": [row for row in rows if row.scope == Webhook.Scope.PERSON],
            "organisation": [row for row in rows if row.scope == Webhook.Scope.ORGANISATION],
            "sees_to_all": may(person, "webhook.organisation"),
            **PROOF,
        }
        return render_page(request, "webhooks", context)


class NewWebhook(Page):
    """Setting one up: its secret is shown once, in the answer to the form."""

    scope = Webhook.Scope.PERSON

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form."""
        self.check(request)
        return self.show(request, WebhookForm(scope=self.scope, initial={"action": new_action()}))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Set it up."""
        self.check(request)
        before = spent_on(request, request.POST.get("action", ""))
        if before is not None:
            return _sent_already(request, before)
        form = WebhookForm(request.POST, scope=self.scope)
        if not form.is_valid():
            return self.show(request, form, 400)
        said = {name: form.cleaned_data[name] for name in ("url", "name", "events")}
        try:
            made = webhook_settings.create(by=request.user, scope=self.scope, **said)  # type: ignore[arg-type]
        except InputError as error:
            form.take(error)
            return self.show(request, form, status_of(error))
        spend(request, form.cleaned_data["action"], reverse("webhook", args=[made.pk]))
        return show(request, made, secret=made.secret)

    def check(self, request: HttpRequest) -> None:
        """The organisation's are for those who see to them."""
        if self.scope == Webhook.Scope.ORGANISATION:
            self.allow("webhook.organisation")

    def show(self, request: HttpRequest, form: WebhookForm, status: int = 200) -> HttpResponse:
        """The page."""
        context = {"here": "messages", "form": form, "is_organisation": self.scope == Webhook.Scope.ORGANISATION}
        return render_page(request, "webhook_form", context, status=status)


def _sent_already(request: HttpRequest, led_to: str) -> HttpResponse:
    banners.info(request, gettext("This had been sent already; nothing was changed again. A secret is shown once."))
    return HttpResponseRedirect(led_to)


def found(request: HttpRequest, number: int) -> Webhook:
    """The webhook of that number.

    Raises:
        Http404: there is none, or it is not theirs to see.
    """
    person: Person = request.user  # type: ignore[assignment]
    row = webhook_settings.visible_to(person).filter(pk=number).first()
    if row is None:
        raise Http404(gettext("There is no webhook {number} of yours.").format(number=number))
    return row


Done = str | Callable[[Any], str]

VERBS: dict[str, tuple[Callable[..., Any], Done]] = {
    "test": (
        webhook_settings.ping,
        gettext_lazy("A test is on its way: its line below says within seconds how it went."),  # type: ignore[dict-item]
    ),
    "off": (webhook_settings.turn_off, gettext_lazy("Nothing is posted there any more.")),  # type: ignore[dict-item]
    "on": (webhook_settings.turn_on, gettext_lazy("What happens from now on is posted there again.")),  # type: ignore[dict-item]
    "remove": (
        webhook_settings.remove,
        gettext_lazy("It is removed, with its secret and the log of what was posted there."),  # type: ignore[dict-item]
    ),
}
"""What a button does, and what is said then."""


class WebhookPage(Once):
    """One webhook: how it stands, what was posted there, and what can be done with it."""

    verbs = ("change", "secret", *VERBS)

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        return show(request, found(request, number))

    def post(self, request: HttpRequest, number: int, verb: str) -> HttpResponse:
        """Do what a button says."""
        row = found(request, number)
        if verb == "secret":
            return self.new_secret(request, row)
        if verb == "change":
            return self.change(request, row)
        if verb not in VERBS:
            raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
        service, words = VERBS[verb]
        where = reverse("webhooks") if verb == "remove" else reverse("webhook", args=[row.pk])
        form = ButtonForm(request.POST)
        answer, status = self.once(request, form, where, str(words), lambda _said: service(webhook=row))
        return answer or show(request, row, problems=form, status=status)

    def change(self, request: HttpRequest, row: Webhook) -> HttpResponse:
        """Keep what the form says."""
        form = WebhookForm(request.POST, scope=row.scope)
        names = ("url", "name", "events")
        answer, status = self.once(
            request,
            form,
            reverse("webhook", args=[row.pk]),
            gettext("It is changed; its secret is the same."),
            lambda said: webhook_settings.change(webhook=row, **{name: said[name] for name in names}),
        )
        return answer or show(request, row, form=form, status=status)

    def new_secret(self, request: HttpRequest, row: Webhook) -> HttpResponse:
        """Give it another one, and show it."""
        form = ButtonForm(request.POST)
        before = spent_on(request, request.POST.get("action", ""))
        if before is not None:
            return _sent_already(request, before)
        if not form.is_valid():
            return show(request, row, problems=form, status=400)
        made = webhook_settings.rotate(webhook=row)
        spend(request, form.cleaned_data["action"], reverse("webhook", args=[row.pk]))
        return show(request, made, secret=made.secret)


def show(
    request: HttpRequest,
    row: Webhook,
    *,
    form: WebhookForm | None = None,
    problems: ButtonForm | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    """The page of a webhook; with a secret that was just made, once."""
    state = choice(request, "state", STATES, "")
    rows = WebhookDelivery.objects.filter(webhook=row).defer("body")
    pages = Paginator(rows.filter(state=state) if state else rows, PER_PAGE)
    number = min(whole_number(request, "page", 1), pages.num_pages)
    known = {"url": row.url, "name": row.name, "events": row.events, "action": new_action()}
    words = webhook_settings.events_of(row.scope)
    context = {
        "here": "messages",
        "webhook": row,
        "is_organisation": row.scope == Webhook.Scope.ORGANISATION,
        "wanted": [words.get(each, each) for each in row.events],
        "form": form or WebhookForm(scope=row.scope, initial=known),
        "problems": problems,
        "action": new_action(),
        "secret": secret,
        "rows": pages.page(number).object_list,
        "number": number,
        "pages": pages.num_pages,
        "count": pages.count,
        "state": state,
        "states": STATES,
        "failures_max": deliveries.FAILURES_MAX,
        "kept_days": deliveries.KEPT.days,
        **PROOF,
    }
    response = render_page(request, "webhook", context, status=status)
    if secret:
        response.headers["Cache-Control"] = "no-store"
    return response


class DeliveryPage(Once):
    """One delivery: what is posted, and how each try went; and once more."""

    verbs = ("again",)

    def get(self, request: HttpRequest, number: int, delivery: int) -> HttpResponse:
        """The page."""
        return self.show(request, self.delivery(request, number, delivery))

    def post(self, request: HttpRequest, number: int, delivery: int, verb: str) -> HttpResponse:
        """Once more."""
        if verb not in self.verbs:
            raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
        row = self.delivery(request, number, delivery)
        form = ButtonForm(request.POST)
        answer, status = self.once(
            request,
            form,
            reverse("delivery", args=[number, delivery]),
            lambda is_sent: (
                gettext("It is posted once more within seconds.")
                if is_sent
                else gettext("The webhook is turned off: turn it on first.")
            ),
            lambda _said: deliveries.send_again(delivery=row),
        )
        return answer or self.show(request, row, form, status)

    def delivery(self, request: HttpRequest, number: int, delivery: int) -> WebhookDelivery:
        """Of that number, of this webhook.

        Raises:
            Http404: there is none, or it is not theirs to see.
        """
        row = WebhookDelivery.objects.filter(webhook=found(request, number), pk=delivery).select_related("webhook")
        if (one := row.first()) is None:
            raise Http404(gettext("This webhook has no delivery {number}.").format(number=delivery))
        return one

    def show(
        self, request: HttpRequest, row: WebhookDelivery, form: ButtonForm | None = None, status: int = 200
    ) -> HttpResponse:
        """The page."""
        context = {
            "here": "messages",
            "row": row,
            "webhook": row.webhook,
            "attempts": list(row.attempts.order_by("-pk")),
            "body": json.dumps(json.loads(row.body), indent=2, ensure_ascii=False),
            "action": new_action(),
            "form": form,
            "tries_max": deliveries.TRIES_MAX,
        }
        return render_page(request, "delivery", context, status=status)
