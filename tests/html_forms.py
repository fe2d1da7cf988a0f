"""What a browser would send of a form as it stands."""

from html.parser import HTMLParser


def form_fields(page: str, action: str) -> dict[str, str]:
    """The fields of the posted form with this action, without its buttons.

    Raises AssertionError where the page has no such form.
    """
    parser = _Fields(action)
    parser.feed(page)
    assert parser.found, f"no form for {action} in: {page[:3000]}"
    return parser.fields


class _Fields(HTMLParser):
    def __init__(self, action: str) -> None:
        super().__init__()
        self._action = action
        self._inside = False
        self._text: str | None = None
        self._select: str | None = None
        self.found = False
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("method") == "post" and (
                given.get("action", "").partition("#")[0] == self._action
            )
            self.found |= self._inside
        elif not self._inside:
            return
        elif tag == "input" and given.get("type") != "submit":
            if given.get("type") in ("checkbox", "radio") and "checked" not in given:
                return
            self.fields[given["name"]] = given.get("value", "")
        elif tag == "textarea":
            self._text = given["name"]
            self.fields[self._text] = ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            # The first one counts unless another is chosen.
            if "selected" in given:
                self.fields[self._select] = given.get("value", "")
            else:
                self.fields.setdefault(self._select, given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            # A browser leaves out the line break that begins a text area.
            so_far = self.fields[self._text]
            self.fields[self._text] = so_far + (data if so_far else data.removeprefix("\n"))
