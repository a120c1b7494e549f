"""What is marked for translation, read out of the source; and the catalogues of each language, kept in step with it.

Needs neither xgettext nor msgfmt: templates are read by Django's own parser, so that what is looked for in a catalogue
when a page is made is exactly what was put into it.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.conf import settings
from django.template import Engine
from django.template.base import Lexer, TokenType
from django.templatetags.i18n import BlockTranslateNode, TranslateNode

from scheduler.advisor import catalogue as rules_of_advice
from scheduler.advisor import measured

PACKAGES = ("budgets", "portal", "scheduler")
DOMAIN = "django"
WIDTH = 120

Key = tuple[str | None, str]
"""Context (None where there is none) and text in English."""


@dataclass
class Phrase:
    """One thing that is to be translated, and the files in which it stands."""

    text: str
    plural: str | None = None
    context: str | None = None
    places: set[str] = field(default_factory=set)

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.context, self.text


# --- reading the source -----------------------------------------------------------------------------------------------

SINGULAR = {"gettext", "gettext_lazy", "gettext_noop", "_"}
PURE = {"scheduler/simulator/timeline_svg.py": {"say"}}
"""What pure code asks instead, which knows of no Django."""
PLURAL = {"ngettext", "ngettext_lazy"}
IN_CONTEXT = {"pgettext", "pgettext_lazy"}
ARGUMENT = re.compile(r"""\b_\((?:"([^"]*)"|'([^']*)')\)""")


def phrases(root: Path) -> dict[Key, Phrase]:
    """All that is marked below `root`, in the order of files and lines."""
    found: dict[Key, Phrase] = {}
    for path, each in [*_of_python(root), *_of_templates(root), *_of_advice(root)]:
        kept = found.setdefault(each.key, each)
        kept.plural = kept.plural or each.plural
        kept.places.add(path.relative_to(root).as_posix())
    return found


def _of_python(root: Path) -> Iterator[tuple[Path, Phrase]]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if "migrations" not in path.parts:
                also = PURE.get(path.relative_to(root).as_posix(), set())
                for each in of_code(path.read_text(encoding="utf-8"), also):
                    yield path, each


def of_code(source: str, also: Set[str] = frozenset()) -> Iterator[Phrase]:
    """The phrases of one module; calls with anything but literal texts are left out. `also` are other names to call."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        said = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if (name in SINGULAR or name in also) and len(said) == 1:
            yield Phrase(said[0])
        elif name in PLURAL and len(said) == 2:
            yield Phrase(said[0], plural=said[1])
        elif name in IN_CONTEXT and len(said) == 2:
            yield Phrase(said[1], context=said[0])


def _of_advice(root: Path) -> Iterator[tuple[Path, Phrase]]:
    """What the advisor's rules say wherever they find something: pure code, which marks nothing."""
    for rule in rules_of_advice():
        for text in filter(None, (rule.pattern, rule.fix, rule.effect)):
            yield root / "scheduler" / "advisor" / "rules", Phrase(text)
    for text in (*measured.FIXES.values(), *measured.EFFECTS.values()):
        yield root / "scheduler" / "advisor" / "measured.py", Phrase(text)


def _of_templates(root: Path) -> Iterator[tuple[Path, Phrase]]:
    engine = Engine.get_default()
    for path in sorted((root / "templates").rglob("*")):
        if path.suffix in (".html", ".txt"):
            source = path.read_text(encoding="utf-8")
            for each in of_template(source, engine):
                yield path, each


def of_template(source: str, engine: Engine) -> Iterator[Phrase]:
    """The phrases of one template, as they are looked up when it is rendered (% is doubled there)."""
    nodes: Any = engine.from_string(source).nodelist
    for node in nodes.get_nodes_by_type(TranslateNode):
        literal = node.filter_expression.var.literal
        if isinstance(literal, str):
            context = str(node.message_context.var) if node.message_context else None
            yield Phrase(literal.replace("%", "%%"), context=context)
    for node in nodes.get_nodes_by_type(BlockTranslateNode):
        context = str(node.message_context.var) if node.message_context else None
        one, _ = node.render_token_list(node.singular)
        many = node.render_token_list(node.plural)[0] if node.plural else None
        yield Phrase(one, plural=many, context=context)
    for token in Lexer(source).tokenize():
        if token.token_type in (TokenType.VAR, TokenType.BLOCK):
            for double, single in ARGUMENT.findall(token.contents):
                yield Phrase((double or single).replace("%", "%%"))


# --- catalogues -------------------------------------------------------------------------------------------------------


def languages() -> list[str]:
    """The languages that need a catalogue: all but the one that the source is written in."""
    return [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]


def folder(root: Path, language: str) -> Path:
    """Where a language's catalogue is."""
    return root / "locale" / language / "LC_MESSAGES"


def read(root: Path, language: str) -> Catalog:
    """The catalogue as it stands; an empty one where there is none yet."""
    path = folder(root, language) / f"{DOMAIN}.po"
    if not path.exists():
        return Catalog(locale=language, domain=DOMAIN)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain=DOMAIN)


def in_step(old: Catalog, wanted: Iterable[Phrase]) -> Catalog:
    """The catalogue with exactly these phrases, and the translations that it had of them."""
    new = Catalog(locale=old.locale, domain=DOMAIN, charset="utf-8", header_comment=HEADER, fuzzy=False)
    new.mime_headers = [("Plural-Forms", PLURAL_FORMS)]
    for phrase in sorted(wanted, key=lambda each: (min(each.places), each.text)):
        known = old.get(phrase.text, phrase.context)
        string: Any = known.string if known is not None else ""
        if phrase.plural is not None:
            string = string if isinstance(string, tuple) else (string, "")
        elif isinstance(string, tuple):
            string = string[0]
        new.add(
            phrase.text if phrase.plural is None else (phrase.text, phrase.plural),
            string,
            locations=[(place, 0) for place in sorted(phrase.places)],
            context=phrase.context,
            flags={"fuzzy"} if known is not None and known.fuzzy else (),
        )
    return new


NO_DATE = datetime(2026, 1, 1, tzinfo=UTC)
PLURAL_FORMS = "nplurals=2; plural=(n != 1)"
"""One, and any other number: so in all the languages that there are. Another kind of language needs its own here."""
LEFT_OUT = tuple(
    f'"{field}:'
    for field in (
        "Project-Id-Version", "Report-Msgid-Bugs-To", "POT-Creation-Date", "PO-Revision-Date", "Generated-By",
        "Last-Translator", "Language-Team",
    )
)  # fmt: skip
HEADER = """\
# Allotment in another language. Kept in step with the source by `manage.py translations`, which also makes the .mo.
# The words that are always translated alike are in docs/glossary.md and docs/developers.md, "Languages"."""


def po_text(catalog: Catalog) -> bytes:
    """The catalogue as the file that people edit. The same catalogue gives the same bytes."""
    file = io.BytesIO()
    write_po(file, catalog, width=WIDTH, include_lineno=False, omit_header=False, sort_output=False)
    lines = file.getvalue().decode().split("\n")
    return "\n".join(line for line in lines if not line.startswith(LEFT_OUT)).encode()


def mo_bytes(catalog: Catalog) -> bytes:
    """The catalogue as Django reads it: what stands in the file that people edit, and the same bytes for the same."""
    written = read_po(io.BytesIO(po_text(catalog)), locale=catalog.locale, domain=DOMAIN)
    written.creation_date = written.revision_date = NO_DATE
    file = io.BytesIO()
    write_mo(file, written)
    return file.getvalue()


def untranslated(catalog: Catalog) -> list[str]:
    """The phrases that have no translation yet, or one that is marked as uncertain."""
    missing = []
    for message in catalog:
        if message.id:
            strings = message.string if isinstance(message.string, tuple) else (message.string,)
            if message.fuzzy or not all(strings):
                missing.append(message.id if isinstance(message.id, str) else message.id[0])
    return missing


PLACEHOLDER = re.compile(r"%\((\w+)\)s|(?<!\{)\{(\w*)(?:![rs])?(?::[^{}]*)?\}(?!\})|%\{(\w+)[^}]*\}")
TAG = re.compile(r"</?\w+>")


def placeholders(text: str) -> list[str]:
    """The places in a text that are filled in, each once, and its HTML tags, in a fixed order."""
    named = {next(name for name in (*found.groups(), "") if name is not None) for found in PLACEHOLDER.finditer(text)}
    return [*sorted(named), *sorted(TAG.findall(text))]


def differing(catalog: Catalog) -> list[str]:
    """Translations whose places or tags are not those of what they translate."""
    found = []
    for message in catalog:
        if not message.id or not message.string:
            continue
        ids = message.id if isinstance(message.id, tuple) else (message.id,)
        strings = message.string if isinstance(message.string, tuple) else (message.string,)
        for string in strings:
            if string and all(placeholders(str(string)) != placeholders(str(each)) for each in ids):
                found.append(f"{ids[0]!r}: {string!r}")
    return found
