"""What each kind of problem means, and what to do about it: its page at `/problems/{slug}`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """A kind of problem in words."""

    statuses: tuple[int, ...]
    means: str
    remedy: str


MEANINGS: dict[str, Meaning] = {
    "validation-error": Meaning(
        (400, 422),
        "What was sent cannot be used: a field or parameter is missing, unknown or out of range, "
        "or the data do not fit what is said of them. Nothing was stored.",
        "`errors` has every fault that was found, each with its field as a JSON pointer (below "
        "/query, /path or /header for a parameter) and the remedy. Correct them, and send it "
        "again.",
    ),
    "unauthorised": Meaning(
        (401,),
        "The request has no API key, or one that is unknown or revoked.",
        "Send `Authorization: Bearer KEY` with a key in force. `fedaudit up` prints one; `fedaudit "
        "keys create` and `POST /v1/api-keys` make others.",
    ),
    "forbidden": Meaning(
        (403,),
        "The key is in force and lacks the scope that this call needs; `scope` names it. A form is "
        "refused so, too, where it was not sent from the service's own pages.",
        "Use a key with the scope, or ask whoever administers the project for one.",
    ),
    "not-found": Meaning(
        (404,),
        "There is nothing at this address in the key's project. What belongs to another project is "
        "answered alike.",
        "Check the address and the id, and whose key it is.",
    ),
    "method-not-allowed": Meaning(
        (405,),
        "The address exists and does not take this method.",
        "The header `Allow` names the methods that it takes.",
    ),
    "gone": Meaning(
        (410,),
        "What is asked for was there, and was removed: its time was over, or it was erased with "
        "its federation. `reason` and `gone_at` say which, and when.",
        "What was removed does not come back by itself. Run the experiment again, or bring the "
        "file again; how long files are kept is set by whoever runs the service.",
    ),
    "conflict": Meaning(
        (409,),
        "The request is right and does not fit the present state: an experiment that has ended "
        "cannot be cancelled, data that are still being profiled have no profile.",
        "`detail` says which state it is. Wait for another, or ask for something else.",
    ),
    "budget-exhausted": Meaning(
        (409,),
        "What the experiment may cost at worst does not fit what is left of a budget on its data.",
        "Ask for fewer rounds, smaller cohorts or more noise; `?validate_only=true` shows the cost "
        "of a spec and stores nothing. Or let the owner of the data raise the total.",
    ),
    "simulation-forbidden": Meaning(
        (409,),
        "The owner of these data admits no experiment whose noise anyone can draw again from its "
        "seed, and none without noise.",
        "Set `noise: release` under `privacy`.",
    ),
    "idempotency-mismatch": Meaning(
        (409,),
        "The same `Idempotency-Key` was sent before with another body.",
        "Use a new key for a new request, and the old one only to repeat a request as it was.",
    ),
    "precondition-failed": Meaning(
        (412,),
        "`If-Match` names a state that is no longer the present one, or `If-None-Match: *` "
        "something that is there already. Nothing was changed.",
        "Get it again, decide anew, and send the `ETag` that it has now.",
    ),
    "payload-too-large": Meaning(
        (413,),
        "The body, a part of it or the file is larger than the service takes.",
        "`detail` has the limit. Send large data as an upload, or put the file below the service's "
        "sources folder and register its path.",
    ),
    "unsupported-media-type": Meaning(
        (415,),
        "The header Content-Type is missing or names a form that is not taken here.",
        "Send JSON as application/json, YAML as application/yaml, uploads as multipart/form-data.",
    ),
    "request-timeout": Meaning(
        (408,),
        "The body stopped for too long, or came at less than a kilobyte a second.",
        "Send it again over a better connection.",
    ),
    "rate-limited": Meaning(
        (429,),
        "The project has too many requests waiting for data to be loaded, or reached the "
        "quota that `quota` names.",
        "Wait as long as `Retry-After` says and send fewer at once, or do what `detail` says.",
    ),
    "too-many-streams": Meaning(
        (429, 503),
        "The key, or this process of the service, has as many event streams open as it may.",
        "Close streams that nobody reads, or wait as long as `Retry-After` says.",
    ),
    "unavailable": Meaning(
        (503,),
        "The service cannot answer just now: its database or storage does not answer or is full, "
        "its schema is of another version, or there are too many connections.",
        "Try again, after `Retry-After` where it is given. If it lasts, tell whoever runs the "
        "service: its log has the request by its `instance`.",
    ),
    "internal-error": Meaning(
        (500,),
        "The service failed in a way that nobody foresaw.",
        "Tell whoever runs the service: its log has the request by its `instance`. Whether "
        "something was stored can be seen by asking for it.",
    ),
}
