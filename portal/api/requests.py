"""Requests over the API: their whole life, what is said to them, and the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.db.models import Q
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from budgets import desks, models
from budgets.authority import may, nodes_with
from budgets.models import OPEN_STATES, Comment, Role, State
from budgets.queries import today
from budgets.services import comments, request_approving, requests
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import (
    Answer,
    Versioned,
    acting_for,
    cluster_given,
    node_given,
    person_given,
    shares_given,
    versioned,
)
from portal.api.requests_out import (
    ApproveIn,
    AttachmentIn,
    AttachmentOut,
    CommentIn,
    CommentOut,
    PassUpIn,
    RequestChange,
    RequestIn,
    RequestOut,
    WithdrawIn,
    attachment_out,
    comment_out,
    requests_out,
    with_all,
)
from portal.api.scopes import DECIDE, SUBMIT
from portal.views.reallocate import evidence_of
from portal.views.request import file_answer, request_numbered
from portal.views.requests import figures_of, visible

STATES = ("open", "decided", *State.values)
FILE_TYPES = ("application/pdf", "image/png", "image/jpeg", "text/csv", "text/plain", "text/markdown")


class LatestFirst(Pages):
    """The newest first."""

    ordering = ("-pk",)


class OldestFirst(Pages):
    """In the order in which they were said."""

    ordering = ("pk",)


FILTERS = (
    filters.one_of("state", "one state, or all that are open, or all that are not", STATES),
    filters.text("node", "of this budget node, or of one below it", at_most=16),
    filters.text("cluster", "on this cluster", at_most=40),
    filters.text("author", "of this person, by user name", at_most=150),
    filters.one_of("desk", "mine: what waits for your decision", ["mine"]),
)


def waiting_for(person: models.Person) -> Q:
    """The requests on a desk of the person's that they may decide, in their own right or for somebody."""
    known = desks.Known()
    known.expect([person])
    theirs = Q(desk__in=nodes_with(person, [Role.MANAGER]))
    for each in known.delegations(person):
        is_givers = Q(author=each.giver_id) | Q(node__in=known.parts(each.giver))
        theirs |= Q(desk__path__contains=[each.node_id]) & ~is_givers
    return Q(state=State.SUBMITTED) & theirs & ~Q(author=person) & ~Q(node__in=known.parts(person))


def in_state(state: str | None) -> Q:
    """What `state` chooses: one state, all that are open, or all that are not."""
    if state in (None, "open", "decided"):
        is_open = Q(state__in=OPEN_STATES)
        return {None: Q(), "open": is_open, "decided": ~is_open}[state]
    return Q(state=state)


def chosen(asked: Mapping[str, Any], path: str, waiting: Callable[[], Q]) -> Q:
    """What FILTERS say. `path` is the column of the node's path, `waiting` what lies on one's desk.

    Raises:
        ValidationError: there is no such node, cluster or person; the parameter is named.
    """
    found = in_state(asked["state"])
    if asked["node"] is not None:
        found &= Q(**{f"{path}__contains": [node_given(asked["node"]).pk]})
    if asked["cluster"] is not None:
        found &= Q(cluster=cluster_given(asked["cluster"]))
    if asked["author"] is not None:
        found &= Q(author=person_given(asked["author"], "author", may_be_gone=True))
    return found & waiting() if asked["desk"] else found


class Requests(Api):
    """Requests: those that one may see, and writing another."""

    scopes = {"POST": SUBMIT}
    filters = FILTERS
    out = RequestOut
    pagination_class = LatestFirst

    @extend_schema(responses=RequestOut(many=True))
    def get(self, request: Request) -> Response:
        """The newest first."""
        person = self.person()
        rows = visible(person).filter(chosen(self.asked(), "node__path", lambda: waiting_for(person)))
        return self.page(with_all(rows), lambda shown: requests_out(shown, person))

    @extend_schema(request=RequestIn, responses={201: RequestOut})
    def post(self, request: Request) -> Response:
        """Write it down: a draft, which nobody but you sees before you submit it."""
        said = self.read(RequestIn(data=request.data))
        said |= {"node": node_given(said["node"]), "cluster": cluster_given(said["cluster"])}
        return shown_request(self, requests.draft(by=self.person(), **said), 201)


def shown_request(view: Api, row: models.Request, status: int = 200) -> Response:
    """The request as it is now; a new one says where it is."""
    [body] = requests_out(list(with_all(models.Request.objects.filter(pk=row.pk))), view.person())
    headers = {"Location": reverse("api-request", args=[row.pk])} if status == 201 else {}
    return versioned(body, body["version"], status=status, headers=headers)


class OneRequest(Api):
    """What the views of one request share."""

    out: type[Serializer] | None = RequestOut
    matches: Collection[str] = ("POST",)

    def row(self, number: int) -> models.Request:
        """The request, if the person may see it; else it is not there."""
        return request_numbered(self.person(), number)

    def answered(self, row: models.Request, said: dict[str, Any]) -> dict[str, Any]:
        """What every answer to a request says."""
        return {
            "request": row,
            "by": self.person(),
            "reason": said["reason"],
            "acting_for": acting_for(said),
            "version": self.version_said(said, needed=False),
        }


class RequestDetail(OneRequest):
    """One request."""

    scopes = {"PATCH": SUBMIT}
    matches = ("PATCH",)

    @extend_schema(responses=RequestOut)
    def get(self, request: Request, number: int) -> Response:
        """As it is now."""
        return shown_request(self, self.row(number))

    @extend_schema(request=RequestChange, responses=RequestOut)
    def patch(self, request: Request, number: int) -> Response:
        """Change a draft of yours, or one that was returned to you."""
        row, said = self.row(number), self.read(RequestChange(data=request.data))
        fields = ("more_basis_points", "starts_on", "ends_on", "useless_on", "why", "otherwise")
        requests.edit(
            request=row,
            node=node_given(said["node"]) if "node" in said else row.node,
            cluster=cluster_given(said["cluster"]) if "cluster" in said else row.cluster,
            by=self.person(),
            version=self.version_said(said),
            **{name: said.get(name, getattr(row, name)) for name in fields},
        )
        return shown_request(self, row)


class Submit(OneRequest):
    """Submitting a request."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=Versioned, responses=RequestOut)
    def post(self, request: Request, number: int) -> Response:
        """Lay your draft on the nearest desk, with the node's own figures of now."""
        row, said = self.row(number), self.read(Versioned(data=request.data))
        figures = figures_of(row.node, row.cluster).plain()
        requests.submit(request=row, by=self.person(), version=self.version_said(said, needed=False), figures=figures)
        return shown_request(self, row)


class Withdraw(OneRequest):
    """Taking a request back."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=WithdrawIn, responses=RequestOut)
    def post(self, request: Request, number: int) -> Response:
        """Your own may be taken back as long as it is not decided."""
        row, said = self.row(number), self.read(WithdrawIn(data=request.data))
        reason = said.get("reason", "")
        requests.withdraw(request=row, by=self.person(), version=self.version_said(said, needed=False), reason=reason)
        return shown_request(self, row)


class GiveBack(OneRequest):
    """Returning a request to its author."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=Answer, responses=RequestOut)
    def post(self, request: Request, number: int) -> Response:
        """With a question, or what is missing."""
        row, said = self.row(number), self.read(Answer(data=request.data))
        requests.give_back(**self.answered(row, said))
        return shown_request(self, row)


class Deny(OneRequest):
    """Denying a request."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=Answer, responses=RequestOut)
    def post(self, request: Request, number: int) -> Response:
        """Say no, and why."""
        row, said = self.row(number), self.read(Answer(data=request.data))
        requests.deny(**self.answered(row, said))
        return shown_request(self, row)


class PassUp(OneRequest):
    """Passing a request up."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=PassUpIn, responses={201: RequestOut})
    def post(self, request: Request, number: int) -> Response:
        """It needs more than the node has: ask the level above, with a request that is linked to it and given back."""
        row, said = self.row(number), self.read(PassUpIn(data=request.data))
        needed = said.get("more_basis_points") or requests.upper_share_for(row, max(row.starts_on, today()))
        upper = requests.pass_up(**self.answered(row, said), more_basis_points=needed)
        return shown_request(self, upper, 201)


class Approve(OneRequest):
    """Approving a request."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ApproveIn, responses=RequestOut)
    def post(self, request: Request, number: int) -> Response:
        """Give it what it asks for, or other shares; `decision` of the answer names the reallocation that does."""
        row, said = self.row(number), self.read(ApproveIn(data=request.data))
        request_approving.approve(
            **self.answered(row, said),
            shares=shares_given(row.parent, said["shares"]) if "shares" in said else None,
            starts_on=said.get("starts_on"),
            ends_on=said.get("ends_on", row.ends_on),
            parent_version=said.get("parent_version"),
            look_again_on=said.get("look_again_on"),
            evidence=looked_at(self.person(), said),
        )
        return shown_request(self, row)


def looked_at(person: models.Person, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures of the what-if that was looked at, as they are kept with a decision.

    Raises:
        ValidationError: there is no such simulation that the person may see.
    """
    number = said.get("simulation")
    found = evidence_of(person, number)
    if number is not None and found is None:
        message = gettext("There is no simulation {number}, or you may not see it.").format(number=number)
        raise ValidationError({"simulation": [message]})
    return found


class Comments(Api):
    """What is said to a request."""

    scopes = {"POST": SUBMIT}
    out = CommentOut
    pagination_class = OldestFirst

    def on(self, number: int) -> models.Request | models.Reallocation:
        """What it is said to, if the person may see that."""
        return request_numbered(self.person(), number)

    @extend_schema(responses=CommentOut(many=True))
    def get(self, request: Request, number: int) -> Response:
        """The oldest first; what is for reviewers only they read."""
        on = self.on(number)
        rows = on.comments.select_related("author")
        if not may(self.person(), "comment.see_reviewers", on):
            rows = rows.filter(audience=Comment.Audience.ALL)
        return self.page(rows, lambda shown: map(comment_out, shown))

    @extend_schema(request=CommentIn, responses={201: CommentOut})
    def post(self, request: Request, number: int) -> Response:
        """Say something; for all who see it, or for those who decide and reviewers."""
        on, said = self.on(number), self.read(CommentIn(data=request.data))
        return Response(comment_out(comments.say(on=on, by=self.person(), **said)), status=201)


class Attachments(OneRequest):
    """The files beside a request: at most 20."""

    scopes = {"POST": SUBMIT}
    out = AttachmentOut
    matches = ()
    parser_classes = [MultiPartParser]

    @extend_schema(responses=AttachmentOut(many=True))
    def get(self, request: Request, number: int) -> Response:
        """The oldest first; not paged."""
        rows = self.row(number).attachments.select_related("author").defer("content")
        return Response([attachment_out(each) for each in rows])

    @extend_schema(request={"multipart/form-data": AttachmentIn}, responses={201: AttachmentOut})
    def post(self, request: Request, number: int) -> Response:
        """Put another file beside it, as long as it is open."""
        row, said = self.row(number), self.read(AttachmentIn(data=request.data))
        content = said["file"].read(comments.MOST_BYTES + 1)
        made = comments.attach(request=row, by=self.person(), name=said["file"].name, content=content)
        address = reverse("api-attachment", args=[row.pk, made.pk])
        return Response(attachment_out(made), status=201, headers={"Location": address})


class AnyForm(DefaultContentNegotiation):
    """Gives what there is, whatever form was asked for."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """The first, for errors."""
        return renderers[0], renderers[0].media_type


class AttachmentFile(OneRequest):
    """A file beside a request."""

    out = None
    matches = ()
    content_negotiation_class = AnyForm

    @extend_schema(responses={(200, kind): OpenApiTypes.BINARY for kind in FILE_TYPES})
    def get(self, request: Request, number: int, attachment: int) -> HttpResponse:
        """As a download."""
        row = self.row(number)
        found = row.attachments.filter(pk=attachment).first()
        if found is None:
            raise Http404(gettext("{row} has no file {attachment}.").format(row=row, attachment=attachment))
        return file_answer(found)
