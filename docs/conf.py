"""Sphinx's configuration of the site: `make docs` builds it, and every warning is an error."""

import re
import sys
from pathlib import Path

from docutils.nodes import SkipNode, bullet_list
from latex2mathml.converter import convert
from sphinx.addnodes import toctree

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

project = "mayne"
author = "The mayne authors"
copyright = "2026, The mayne authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = True

html_theme = "furo"
html_title = "mayne"
html_static_path = ["_static"]
html_css_files = ["docstrings.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Array", "Vector", "Guess", "Start", "Terms")}
exclude_patterns = ["_build"]


ARGUMENT = re.compile(r"[\w, ()`.\-+⊕⊖]{1,70}(\[[^]]*\])?: ")
LITERAL = re.compile(r"(``.+?``|`.+?`)", re.DOTALL)


def as_markup(app, what, name, obj, options, lines):
    """Turn a docstring, plain text whose arguments begin lines, into paragraphs and lists of the generator."""
    found = []
    for paragraph in "\n".join(lines).strip().split("\n\n"):
        items = []
        for line in paragraph.split("\n"):
            begins = not items or (not line.startswith(" ") and ARGUMENT.match(line))
            items = [*items, line.strip()] if begins else [*items[:-1], f"{items[-1]} {line.strip()}"]
        found += [*(f"* {_escaped(item)}" if len(items) > 1 else _escaped(item) for item in items), ""]
    lines[:] = found


def _escaped(text):
    """Text without accidental markup, in which what is between backticks is code."""
    parts = LITERAL.split(text)
    plain = [re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part.strip('`')}``\\ " for part in parts[1::2]]
    return "".join(part for pair in zip(plain, [*code, ""], strict=True) for part in pair)


def plain_signature(app, what, name, obj, options, signature, returns):
    """Name aliases of types as the source does, and defaults that are made anew as ``...``."""
    if signature is None:
        return None
    signature = re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature).replace("<factory>", "...")
    return signature, returns


def inline_formula(writer, node):
    """Write a formula as MathML, which browsers draw without a network."""
    writer.body.append(convert(node.astext()))
    raise SkipNode


def formula(writer, node):
    """Write a formula of its own line as MathML."""
    writer.body.append(convert(node.astext(), display="block"))
    raise SkipNode


def with_host(app, docname, source):
    """Begin pages that are notebooks with what opens them on a host, where the repository's address is known."""
    page = notebooks.HERE / f"{docname}.md"
    if page in notebooks.PAGES and (line := notebooks.hosted(page)):
        title, _, rest = source[0].partition("\n")
        source[0] = f"{title}\n\n{line}\n{rest}"


_titles = {}
"""Name of a page -> its table of contents without sections: all that the links to the site's pages are drawn from."""

_navigation = {}
"""Depth of a page's folder -> links to the site's pages from there."""


def without_sections(toc):
    """Keep titles, and the pages below a page: what Sphinx keeps for these links, after it has copied all sections."""
    toc = toc.deepcopy()
    for entry in toc.children:
        if len(entry) > 1:
            pages = list(entry.findall(toctree))
            entry[1:] = [bullet_list("", *pages)] if pages else []
    return toc


def share_navigation(app, pagename, templatename, context, doctree):
    """Let pages of sources share these links: none of them is among those pages, so that depths alone differ."""
    drawn, depth, env = context["toctree"], pagename.count("/"), app.env
    if not _titles:
        _titles.update((name, without_sections(toc)) for name, toc in env.tocs.items())

    def links(**how):
        whole, env.tocs = env.tocs, _titles
        try:
            return drawn(**how)
        finally:
            env.tocs = whole

    def shared(**how):
        return _navigation.get(depth) or _navigation.setdefault(depth, links(**how))

    context["toctree"] = shared if pagename.startswith("_modules/") else links


def setup(app):
    """Register how formulas and docstrings are written, and where notebooks are opened."""
    app.connect("source-read", with_host)
    app.connect("html-page-context", share_navigation, priority=400)  # before the theme's
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
    app.connect("autodoc-process-docstring", as_markup)
    app.connect("autodoc-process-signature", plain_signature)
