"""What the environment may say about signing in, and what is told of what it may not."""

from __future__ import annotations

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings_signing import OpenId, Signing, signing

PROVIDER = {"ALLOTMENT_OIDC_ISSUER": "https://login.example.org/lab", "ALLOTMENT_OIDC_CLIENT_ID": "allotment"}


def read(said: dict[str, str]) -> Signing:
    """What this environment means."""
    env = environ.Env()
    env.ENVIRON = said
    return signing(env, lambda name: said.get(name, ""))


def test_nothing_said_is_passwords_alone():
    assert read({}) == Signing(
        session_s=604_800, session_idle_s=0, token_max_days=365, has_passwords=True, open_id=None
    )  # fmt: skip


def test_an_issuer_and_a_client_are_enough():
    assert read(PROVIDER).open_id == OpenId(
        issuer="https://login.example.org/lab", client_id="allotment", client_secret="", name="login.example.org",
        scopes="openid profile email", groups_claim="groups", roles={}, roles_days=30, unknown="refuse",
        link_by="nothing",
    )  # fmt: skip


def test_everything_can_be_said():
    found = read(
        {
            **PROVIDER,
            "ALLOTMENT_OIDC_CLIENT_SECRET": "s",
            "ALLOTMENT_OIDC_NAME": "the institute",
            "ALLOTMENT_OIDC_SCOPES": "openid groups",
            "ALLOTMENT_OIDC_GROUPS_CLAIM": "realm_access.roles",
            "ALLOTMENT_OIDC_ROLES": '{"cn=ops,dc=example": ["operator@LAB"], "vision": ["member@A1", "manager@A"]}',
            "ALLOTMENT_OIDC_ROLES_DAYS": "7",
            "ALLOTMENT_OIDC_UNKNOWN": "create",
            "ALLOTMENT_OIDC_LINK_BY": "email",
            "ALLOTMENT_PASSWORDS": "false",
            "ALLOTMENT_SESSION_HOURS": "8",
            "ALLOTMENT_SESSION_IDLE_MINUTES": "30",
            "ALLOTMENT_TOKEN_MAX_DAYS": "90",
        }
    )
    assert found == Signing(
        session_s=28_800,
        session_idle_s=1_800,
        token_max_days=90,
        has_passwords=False,
        open_id=OpenId(
            issuer="https://login.example.org/lab", client_id="allotment", client_secret="s", name="the institute",
            scopes="openid groups", groups_claim="realm_access.roles",
            roles={"cn=ops,dc=example": (("operator", "LAB"),), "vision": (("member", "A1"), ("manager", "A"))},
            roles_days=7, unknown="create", link_by="email",
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"ALLOTMENT_OIDC_ISSUER": "login.example.org"},
            "ALLOTMENT_OIDC_ISSUER: 'login.example.org' is not an address",
        ),
        ({"ALLOTMENT_OIDC_ISSUER": "http://login.example.org"}, "ALLOTMENT_OIDC_ISSUER"),
        ({"ALLOTMENT_OIDC_ISSUER": "https://login.example.org/?realm=x"}, "ALLOTMENT_OIDC_ISSUER"),
        ({"ALLOTMENT_OIDC_ISSUER": "https://login.example.org"}, "ALLOTMENT_OIDC_CLIENT_ID"),
        ({**PROVIDER, "ALLOTMENT_OIDC_SCOPES": "email"}, "ALLOTMENT_OIDC_SCOPES: must hold openid"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": "{"}, "ALLOTMENT_OIDC_ROLES: is not JSON"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": "[]"}, "ALLOTMENT_OIDC_ROLES: must be"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": '{"a": []}'}, "'a' must have roles such as member@A1"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": '{"a": ["root@LAB"]}'}, "'a' must have roles"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": '{"a": ["member@A 1"]}'}, "'a' must have roles"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES": '{"a": [7]}'}, "'a' must have roles"),
        ({**PROVIDER, "ALLOTMENT_OIDC_ROLES_DAYS": "0"}, "ALLOTMENT_OIDC_ROLES_DAYS: 0 is not a whole number from 1"),
        ({**PROVIDER, "ALLOTMENT_OIDC_UNKNOWN": "maybe"}, "ALLOTMENT_OIDC_UNKNOWN: 'maybe' is none of refuse, create"),
        ({**PROVIDER, "ALLOTMENT_OIDC_LINK_BY": "name"}, "ALLOTMENT_OIDC_LINK_BY"),
        ({"ALLOTMENT_PASSWORDS": "false"}, "ALLOTMENT_PASSWORDS: without an OpenID provider nobody could sign in"),
        ({"ALLOTMENT_SESSION_HOURS": "0"}, "ALLOTMENT_SESSION_HOURS"),
        ({"ALLOTMENT_SESSION_IDLE_MINUTES": "-1"}, "ALLOTMENT_SESSION_IDLE_MINUTES"),
        ({"ALLOTMENT_TOKEN_MAX_DAYS": "4000"}, "ALLOTMENT_TOKEN_MAX_DAYS: 4000 is not a whole number from 1 to 3650"),
    ],
)
def test_what_cannot_be_names_its_variable(said, words):
    with pytest.raises(ImproperlyConfigured) as found:
        read(said)
    assert words in str(found.value)


def test_a_provider_on_loopback_needs_no_tls():
    assert read({**PROVIDER, "ALLOTMENT_OIDC_ISSUER": "http://127.0.0.1:9000"}).open_id is not None
