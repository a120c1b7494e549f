"""Access tokens: mine, and for operators and administrators those of somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages as banners
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import AccessToken, Person, Scope
from budgets.services import tokens
from portal.forms.tokens import RevokeForm, TokenForm
from portal.pages import Once, Page, new_action, render_page, spend, spent_on, whole_number

PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class Row:
    """A token as its row shows it."""

    token: AccessToken
    is_alive: bool
    scopes: list[str]
    action: str


class MyTokens(Page):
    """My tokens, and making one: its text stands in the answer to the form, once."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        return self.show(request, TokenForm(initial={"action": new_action()}))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make one."""
        if spent_on(request, request.POST.get("action", "")) is not None:
            banners.info(
                request, gettext("This had been sent already; no second token was made. A token is shown once.")
            )
            return HttpResponseRedirect(reverse("tokens"))
        form = TokenForm(request.POST)
        if not form.is_valid():
            return self.show(request, form, 400)
        said = form.cleaned_data
        try:
            token, shown = tokens.create(
                person=request.user,  # type: ignore[arg-type]
                name=said["name"],
                scopes=said["scopes"],
                days=said["days"],
            )
        except InputError as error:
            form.take(error)
            return self.show(request, form, 400)
        spend(request, said["action"], reverse("tokens"))
        response = self.show(request, TokenForm(initial={"action": new_action()}), made=(token, shown))
        response.headers["Cache-Control"] = "no-store"
        return response

    def show(
        self, request: HttpRequest, form: TokenForm, status: int = 200, made: tuple[AccessToken, str] | None = None
    ) -> HttpResponse:
        """The page."""
        person: Person = request.user  # type: ignore[assignment]
        context = {
            **list_of(request, person),
            "here": "tokens",
            "form": form,
            "made": made[0] if made else None,
            "shown": made[1] if made else "",
            "address": request.build_absolute_uri(reverse("api-me")),
        }
        return render_page(request, "tokens", context, status=status)


class TokensOf(Page):
    """Somebody else's tokens, to see to and to revoke."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page; mine is another."""
        owner = Person.objects.filter(pk=number).first()
        if owner is None or not may(request.user, "token.revoke", owner):
            raise Http404(gettext("There is nobody {number} whose tokens are yours to see.").format(number=number))
        if owner.pk == request.user.pk:
            return HttpResponseRedirect(reverse("tokens"))
        return show_of(request, owner, RevokeForm(initial={"action": new_action()}))


class Revoke(Once):
    """Ending a token: mine, or with a reason somebody else's."""

    def post(self, request: HttpRequest, number: int) -> HttpResponse:
        """End it."""
        by: Person = request.user  # type: ignore[assignment]
        token = AccessToken.objects.filter(pk=number).select_related("person").first()
        if token is None or not may(by, "token.revoke", token.person):
            raise Http404(gettext("There is no token {number} of yours.").format(number=number))
        is_mine = token.person_id == by.pk
        address = reverse("tokens") if is_mine else reverse("tokens_of", args=[token.person_id])
        form = RevokeForm(request.POST)
        answer, status = self.once(
            request,
            form,
            address,
            gettext("{token} is revoked: it opens nothing any more.").format(token=token.prefix + "…"),
            lambda said: tokens.revoke(token=token, by=by, reason=said["reason"]),
        )
        if answer is not None:
            return answer
        if not is_mine:
            return show_of(request, token.person, form, status)
        for problems in form.errors.values():
            banners.error(request, " ".join(str(each) for each in problems))
        return HttpResponseRedirect(address)


def show_of(request: HttpRequest, owner: Person, form: RevokeForm, status: int = 200) -> HttpResponse:
    """The page of somebody else's tokens."""
    context = {**list_of(request, owner), "here": "people", "owner": owner, "form": form}
    return render_page(request, "tokens_of", context, status=status)


def list_of(request: HttpRequest, owner: Person) -> dict[str, Any]:
    """One page of a person's tokens, the latest first."""
    pages = Paginator(AccessToken.objects.filter(person=owner).select_related("ended_by"), PER_PAGE)
    number = min(whole_number(request, "page", 1), pages.num_pages)
    now = timezone.now()
    return {
        "rows": [row_of(token, now) for token in pages.page(number).object_list],
        "number": number,
        "pages": pages.num_pages,
        "count": pages.count,
    }


def row_of(token: AccessToken, now: datetime) -> Row:
    """As its row shows it."""
    return Row(token, token.is_alive(now), [Scope(scope).value for scope in token.scopes], new_action())
