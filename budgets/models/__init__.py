"""Who is entitled to what: people, the budget tree, dated roles and dated shares, what is asked for and decided, the
review meetings, and the ledger of it all.

Rows change only through `budgets.services`; what must always hold is a constraint of the database too.
"""

from budgets.models.balances import BooksCheck
from budgets.models.cells import CellGrant
from budgets.models.identities import ClaimedRole, Identity
from budgets.models.imports import ShareImport
from budgets.models.kept_answers import KeptAnswer
from budgets.models.limits import Limit
from budgets.models.messages import ALWAYS_SENT, Digest, Kind, Message, MessageChoice, Threshold
from budgets.models.people import Person
from budgets.models.ranges import DateRange, SingletonRange, spell
from budgets.models.record import LedgerEntry
from budgets.models.requests import OPEN_STATES, Attachment, Comment, Reallocation, ReallocationLine, Request, State
from budgets.models.reviews import FollowUp, Review, ReviewItem, Voice
from budgets.models.roles import Delegation, House, Role, RoleGrant
from budgets.models.tokens import AccessToken, Scope
from budgets.models.tree import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Share
from budgets.models.webhooks import Webhook, WebhookDelivery, WebhookMark, WebhookTry

__all__ = [
    "ALWAYS_SENT",
    "OPEN_STATES",
    "WHOLE_BASIS_POINTS",
    "AccessToken",
    "Attachment",
    "BooksCheck",
    "BudgetNode",
    "CellGrant",
    "ClaimedRole",
    "Cluster",
    "Comment",
    "DateRange",
    "Delegation",
    "Digest",
    "FollowUp",
    "House",
    "Identity",
    "KeptAnswer",
    "Kind",
    "LedgerEntry",
    "Limit",
    "Message",
    "MessageChoice",
    "Person",
    "Reallocation",
    "ReallocationLine",
    "Request",
    "Review",
    "ReviewItem",
    "Role",
    "RoleGrant",
    "Scope",
    "Share",
    "ShareImport",
    "SingletonRange",
    "State",
    "Threshold",
    "Voice",
    "Webhook",
    "WebhookDelivery",
    "WebhookMark",
    "WebhookTry",
    "spell",
]
