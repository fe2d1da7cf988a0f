"""SVG elements as text; all content is escaped."""

from markupsafe import Markup, escape

Attribute = str | int | float


def element(tag: str, *children: str, **attributes: Attribute | None) -> Markup:
    """One element.

    A `_` in an attribute's name is written as `-`, and a trailing one is dropped; None omits the
    attribute. Children are escaped unless they are Markup.
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _text(value))
        for name, value in attributes.items()
        if value is not None
    )
    if not children:
        return Markup("<{}{}/>").format(tag, written)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, together(*children))


def together(*parts: str) -> Markup:
    """Parts one after another, escaped unless they are Markup."""
    return Markup("").join(escape(part) for part in parts)


def label(content: str, x: float, y: float, *, anchor: str = "start", kind: str = "") -> Markup:
    """A line of text. `anchor`: start, middle or end; `kind`: a class of the style sheet."""
    shown = None if anchor == "start" else anchor
    return element("text", content, x=x, y=y, text_anchor=shown, class_=kind or None)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line with a class of the style sheet."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def number(value: float) -> str:
    """A position, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def shortened(content: str, characters: int) -> str:
    """A text shortened to fit; an ellipsis marks the cut."""
    return content if len(content) <= characters else f"{content[: characters - 1].rstrip()}…"


def _text(value: Attribute) -> str:
    return number(value) if isinstance(value, float) else str(value)
