"""`allot login`, `logout`, `whoami`, `use` and `completion`."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import replace

import click
from click.shell_completion import get_completion_class

from allot import complete, settings
from allot.app import App, asks
from allot.client import Portal
from allot.failures import NOT_ALLOWED, UNREACHABLE, USAGE, Failure
from allot.screen import clean, note, put
from allot.settings import Settings
from allot.words import instant, now, plural


@click.command(short_help="Sign in: the portal's address, and a token.")
@click.option("--url", metavar="ADDRESS", help="The portal, such as https://gpu.example.org. [asked for unless said]")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where the token is. [a hidden prompt, or stdin]",
)
@click.option(
    "--ca-file", metavar="FILE", type=click.Path(dir_okay=False), help="Authorities to trust in place of the system's."
)
@click.option(
    "--plain-http", is_flag=True, help="Allow http to another machine: everybody on the way can read the token."
)
@click.pass_obj
def login(app: App, *, url: str | None, token_file: str | None, ca_file: str | None, plain_http: bool) -> None:
    """Keep the portal's address and an access token of yours, in a file that only you can read.

    Make the token on the portal, on the page *Access tokens*: with the scopes read and submit, and with operate or
    decide for who does that. It is never taken from an argument.
    """
    before = _before()
    said = url or os.environ.get("ALLOT_URL") or _prompt("Address of the portal", before.url)
    address = settings.address(said)
    same = before if before.url == address else Settings()
    ca_path = os.path.abspath(ca_file) if ca_file else same.ca_file or os.environ.get("ALLOT_CA_FILE", "")
    wanted = replace(same, url=address, ca_file=ca_path, plain_http=plain_http or same.plain_http)
    settings.check_encrypted(wanted)
    wanted = replace(wanted, token=settings.checked_token(_token(token_file, address)))
    me = Portal(wanted).get("me")
    path = settings.store(wanted)
    token = me.get("token") or {}
    scopes = f", for {', '.join(token['scopes'])}, until {instant(token['ends_at'], now())}" if token else ""
    put(f"Signed in to {address} as {clean(me['username'])}{scopes}.")
    note(f"Kept in {path}")


def _before() -> Settings:
    """What was stored, if it can be read: signing in again is how a damaged file is mended."""
    try:
        return settings.stored()
    except Failure as failure:
        if failure.exit_code == USAGE:
            return Settings()
        raise


def _prompt(question: str, default: str) -> str:
    if not sys.stdin.isatty():
        if default:
            return default
        raise Failure("--url: say the portal's address", USAGE)
    return str(click.prompt(question, default=default or None, err=True))


def _token(token_file: str | None, address: str) -> str:
    """From the file, a hidden prompt, or what is piped in."""
    if token_file:
        return settings.token_in(token_file)
    if not sys.stdin.isatty():
        return sys.stdin.readline(10_000).strip()
    note(f"Make a token at {address}/tokens/")
    try:
        return getpass.getpass("Token (not shown): ").strip()
    except EOFError:
        raise Failure("no token was given", NOT_ALLOWED) from None


@click.command(short_help="Forget the token; --revoke ends it on the portal as well.")
@click.option("--revoke", is_flag=True, help="End the token, so that no copy of it works any more.")
@click.pass_obj
def logout(app: App, *, revoke: bool) -> None:
    """Forget the stored token; the address and your choices stay."""
    kept = settings.stored()
    if not kept.token:
        put("You were not signed in.")
        return
    if revoke:
        portal = Portal(kept)
        token = portal.get("me").get("token")
        if token:
            portal.send("DELETE", "tokens", str(token["id"]))
    settings.store(replace(kept, token=""))
    put(f"Signed out of {kept.url}{', and the token is revoked' if revoke else ''}.")


@click.command(short_help="Who you are, your roles, and what your token may.")
@asks
def whoami(app: App) -> None:
    """Who the portal takes you for."""
    me = app.portal.get("me")
    if app.give(me):
        return
    at, screen, token = now(), app.screen, me.get("token")
    screen.say(f"{me['username']} ({clean(me['display_name'])}) at {app.settings.url}")
    roles = [f"{each['role']} of {each['node']} {clean(each['node_name'])}" for each in me["roles"]]
    leaves = [each["code"] for each in me.get("leaves", [])]
    screen.facts(
        [
            ("roles", "; ".join(roles) or "none"),
            ("submits to", ", ".join(leaves[:20]) + (f" and {len(leaves) - 20} more" if len(leaves) > 20 else "")),
            (
                "token",
                f"{clean(token['name'])}: {', '.join(token['scopes'])}; ends {instant(token['ends_at'], at)}"
                if token
                else "",
            ),
            ("cluster", app.settings.cluster),
            ("leaf", app.settings.leaf),
        ]
    )


@click.command(short_help="Choose the cluster and project that commands take unless said.")
@click.option("-c", "--cluster", metavar="NAME", shell_complete=complete.clusters, help="The cluster; '' for none.")
@click.option("-l", "--leaf", metavar="CODE", shell_complete=complete.leaves, help="The project; '' for none.")
@click.pass_obj
def use(app: App, *, cluster: str | None, leaf: str | None) -> None:
    """Choose a cluster and a project of your own; without options, show them."""
    kept = settings.stored()
    if cluster or leaf:
        names = {each["name"] for each in app.clusters}
        if cluster and cluster not in names:
            raise Failure(f"--cluster: there is no cluster {cluster!r}; there are {', '.join(sorted(names))}", USAGE)
        leaves = {each["code"] for each in app.portal.get("me")["leaves"]} if leaf else set()
        if leaf and leaf not in leaves:
            raise Failure(f"--leaf: you can't submit to {leaf!r}; {_leaves(leaves)}", USAGE)
    chosen = replace(
        kept, cluster=kept.cluster if cluster is None else cluster, leaf=kept.leaf if leaf is None else leaf
    )
    if chosen != kept:
        settings.store(chosen)
    put(f"cluster: {chosen.cluster or '(the only one)'}, project: {chosen.leaf or '(the only one)'}")


def _leaves(codes: set[str]) -> str:
    if not codes:
        return "you are a member of no project"
    shown = sorted(codes)[:8]
    return f"you can to {', '.join(shown)}" + (f" and {plural(len(codes) - 8, 'other')}" if len(codes) > 8 else "")


@click.command(short_help="Print what makes your shell complete commands, workloads, nodes and projects.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes `allot` after a tab.

    \b
      bash   eval "$(allot completion bash)"    in ~/.bashrc (bash 4.4 or newer)
      zsh    eval "$(allot completion zsh)"     in ~/.zshrc, after compinit
      fish   allot completion fish | source     in ~/.config/fish/config.fish
    """
    from allot.main import cli

    of_shell = get_completion_class(shell)
    if of_shell is None:
        raise Failure(f"no completion for {shell}", UNREACHABLE)
    put(of_shell(cli, {}, "allot", "_ALLOT_COMPLETE").source())
