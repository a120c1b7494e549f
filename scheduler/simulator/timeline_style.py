"""The looks of a timeline file, light and dark, as the portal's style sheet has them for its pages."""

from __future__ import annotations

from collections.abc import Mapping

ROLES: Mapping[str, tuple[str, str]] = {
    "bg": ("#ffffff", "#131619"),
    "bg-sunk": ("#f5f6f8", "#1a1e22"),
    "ink": ("#14171a", "#eceef1"),
    "ink-2": ("#4a5159", "#b0b7c0"),
    "ink-3": ("#666e78", "#8f98a3"),
    "line": ("#e4e7eb", "#2a2f35"),
    "line-2": ("#c6ccd3", "#434a52"),
    "short": ("#c4342a", "#ff8379"),
}
"""Colours by role: light, dark."""
TEAMS: tuple[tuple[str, str, str, str], ...] = (
    ("#8a9099", "#14171a", "#7d858e", "#14171a"),
    ("#3669cf", "#ffffff", "#6e92eb", "#14171a"),
    ("#c66809", "#14171a", "#dd7c43", "#14171a"),
    ("#015f3f", "#ffffff", "#8debce", "#14171a"),
    ("#b44088", "#ffffff", "#f093bc", "#14171a"),
    ("#632a90", "#ffffff", "#7752b3", "#ffffff"),
    ("#3999d6", "#14171a", "#69c3f8", "#14171a"),
    ("#af8f4f", "#14171a", "#d7be65", "#14171a"),
    ("#58240d", "#ffffff", "#875b45", "#ffffff"),
    ("#0f8a8a", "#14171a", "#3fb8b5", "#14171a"),
    ("#6f7d12", "#14171a", "#b5c24a", "#14171a"),
    ("#8c6ad6", "#14171a", "#b79cf2", "#14171a"),
    ("#2b7a2f", "#ffffff", "#63b867", "#14171a"),
    ("#d0779f", "#14171a", "#b9567f", "#ffffff"),
    ("#41577a", "#ffffff", "#8aa0c4", "#14171a"),
    ("#8f4a5c", "#ffffff", "#c98a99", "#14171a"),
    ("#b0a000", "#14171a", "#9c9440", "#14171a"),
)
"""Teams by their colour number, 0 is "other": light, text on it, dark, text on it. From 9 on they carry dots."""

PLAIN = """
:root{color-scheme:light dark}
text{font:12px system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-variant-numeric:tabular-nums}
text.b,text.name{font-weight:600}
text.title{font-size:22px;font-weight:700}
.halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}
.g,.now{fill:none;stroke-width:1}
.h-over{stroke-width:2.5;opacity:.5;fill:none}
.h-repair{stroke-width:1;opacity:.6;fill:none}
.tex{opacity:.26}
.promise{opacity:.38}
.open{stroke-width:1}
.arrow{stroke-width:1.5;paint-order:stroke}
body{margin:0;font:14px/1.45 system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{padding:24px}
h1{font-size:26px;line-height:1.2;margin:0 0 8px}
p{margin:0 0 12px;max-width:92ch}
.panels{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,36rem),1fr));align-items:start}
figure{margin:0;min-width:0}
figcaption{margin-bottom:8px;min-height:2.9em}
.drawing{position:relative;overflow-x:auto}
.drawing svg,.drawing canvas{display:block;width:100%;min-width:34rem;height:auto;touch-action:pan-x pan-y}
.drawing canvas{position:absolute;inset:0 auto auto 0;height:100%}
.drawing .frame{position:absolute;pointer-events:none;opacity:.25}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;padding:0;margin:16px 0 0;font-size:13px}
.legend li{display:inline-flex;gap:6px;align-items:center}
.sw svg{display:block}
details{margin-top:8px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin-top:8px}
th,td{padding:3px 12px 3px 0;text-align:right;font-weight:400}
th:first-child{text-align:left}
button{font:inherit;border-radius:6px;padding:4px 10px;background:none;color:inherit}
.told{min-height:1.5em;margin-top:12px}
@media print{.tools,.how,.told{display:none}.drawing svg,.drawing canvas{min-width:0}main{padding:0}}
"""


def style() -> str:
    """The style sheet of a file: the light look, and the dark one where the reader's system asks for it."""
    return f"{PLAIN}{_colours(0)}@media screen and (prefers-color-scheme:dark){{{_colours(1)}}}"


def _colours(look: int) -> str:
    role = {name: colours[look] for name, colours in ROLES.items()}
    found = [
        (
            f":root{{{''.join(f'--{name}:{colour};' for name, colour in role.items())}"
            f"{''.join(f'--team-{number}:{team[2 * look]};' for number, team in enumerate(TEAMS))}}}"
        ),
        f"body{{background:{role['bg']};color:{role['ink']}}}figcaption,p,.legend,summary{{color:{role['ink-2']}}}",
        f"figcaption b{{color:{role['ink']}}}button{{border:1px solid {role['ink-3']}}}",
        f"td,tbody th{{border-top:1px solid {role['line']}}}.frame{{background:{role['ink']}}}",
        f"text{{fill:{role['ink-2']}}}text.b,text.title{{fill:{role['ink']}}}.ground{{fill:{role['bg']}}}",
        f".halo{{fill:{role['ink']};stroke:{role['bg']}}}.free{{fill:{role['bg-sunk']}}}.repair{{fill:{role['line']}}}",
        f".g{{stroke:{role['line-2']};stroke-opacity:.35}}.now{{stroke:{role['ink']}}}.h-over{{stroke:{role['bg']}}}",
        f".h-repair{{stroke:{role['ink-3']}}}.tex{{fill:{role['bg']}}}.edge{{fill:{role['short']}}}",
        f".arrow{{fill:{role['short']};stroke:{role['bg']}}}",
    ]
    for number, team in enumerate(TEAMS):
        fill, on = team[2 * look], team[2 * look + 1]
        found.append(f".f{number}{{fill:{fill}}}.s{number}{{stroke:{fill}}}text.o{number}{{fill:{on}}}")
    return "".join(found)
