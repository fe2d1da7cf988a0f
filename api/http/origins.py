"""Whether a page of another site sent a request."""

from urllib.parse import urlsplit

from starlette.requests import Request

from api.http.problems import ProblemError

_OWN_SITES = ("same-origin", "none")


def refuse_foreign(request: Request) -> None:
    """Raises ProblemError where another site's page sent the request, as far as the browser says.
    Browsers send `Sec-Fetch-Site` over HTTPS only. `Origin` is compared by host and port, as a
    proxy may have changed the scheme; a page that hides its origin (`null`) is foreign. A request
    with neither header does not come from a browser's form."""
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin")
    host = request.headers.get("host") or None
    try:
        foreign = origin is not None and urlsplit(origin).netloc != host
    except ValueError:
        foreign = True
    if foreign or site not in _OWN_SITES:
        raise ProblemError("forbidden", "the form was sent from another site")
