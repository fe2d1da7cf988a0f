"""Where requests come from, and where people may be sent."""

from urllib.parse import urlsplit

from fastapi import Request

HOME = "/"
_OWN_SITES = ("same-origin", "none")
_CONTROLS = frozenset(map(chr, [*range(0x20), 0x7F]))


def is_foreign(request: Request) -> bool:
    """Whether another site's page sent the request, as far as the browser states.

    `Sec-Fetch-Site` is the browser's own word for it, and is not sent over plain HTTP; `Origin` is
    compared by host and port, as a proxy may have changed the scheme. A page that hides its origin
    (`null`) is foreign. What has neither header was not sent by a browser's form.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in _OWN_SITES:
        return True
    origin = request.headers.get("origin")
    return origin is not None and _authority(origin) != request.headers.get("host")


def local_path(target: str | None) -> str:
    """The path with its query if it leads to this service, else the home page.

    Browsers take `//host`, and a backslash for a slash, as the way to another host.
    """
    if not target or not target.startswith("/") or target.startswith("//"):
        return HOME
    if "\\" in target or not _CONTROLS.isdisjoint(target):
        return HOME
    return target


def came_from(request: Request) -> str:
    """The path of the page that holds a form, so that people find back to it."""
    referer = request.headers.get("referer", "")
    if _authority(referer) != request.headers.get("host"):
        return HOME
    parts = urlsplit(referer)
    return local_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def _authority(url: str) -> str | None:
    """Host and port of a URL; None for what is no URL."""
    try:
        return urlsplit(url).netloc or None
    except ValueError:
        return None
