"""Which addresses the service may be made to call by whoever names a URL.

Names are judged by what they resolve to, at the moment of each connection (`checked_connections`).
What can be said of a URL by itself is said when it is given.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

MAX_URL_CHARACTERS = 2000

_GLOBAL_UNICAST = ip_network("2000::/3")
"""All that is routed on the internet today; what maps or translates to IPv4 lies outside of it."""
_WRAPPED = (ip_network("2002::/16"), ip_network("2001::/32"))
"""6to4 and Teredo: an IPv4 address within, which nobody checks."""
_PRIVATE = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128"),
    )
)
_METADATA = ip_network("fd00:ec2::/32")
"""Where machines of a cloud read their credentials; the others' lie among link-local addresses."""


class AddressRefusedError(Exception):
    """The service does not call this; the message says why."""


def check_url(url: str, *, allow_private: bool) -> httpx.URL:
    """A URL that may be called as far as can be said without resolving its name.

    Raises AddressRefusedError, with a message that follows the name of the field.
    """
    if len(url) > MAX_URL_CHARACTERS:
        raise AddressRefusedError(f"has more than {MAX_URL_CHARACTERS} characters")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressRefusedError(f"is no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.port == 0:
        raise AddressRefusedError("must begin with https:// or http://, and name a host")
    if parsed.userinfo:
        raise AddressRefusedError("must not hold a user or password; deliveries are signed instead")
    if parsed.fragment or "#" in url:
        raise AddressRefusedError("must not have a fragment, which would never be sent")
    name = parsed.host.rstrip(".").lower()
    if not allow_private and (name == "localhost" or name.endswith(".localhost")):
        raise AddressRefusedError("names this machine; give an address that others can reach")
    for address in _written_out(parsed.host):
        check_address(address, allow_private=allow_private)
    return parsed


def check_address(text: str, *, allow_private: bool) -> None:
    """Raises AddressRefusedError for an address that is not on the open internet.

    `allow_private`: of the others, loopback and private networks are admitted.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressRefusedError(f"{text!r} is no address") from None
    if _is_open(address) or (allow_private and _is_private(address)):
        return
    raise AddressRefusedError(
        f"{text} is not on the open internet; FEDAUDIT_WEBHOOKS_ALLOW_PRIVATE=true admits private "
        "networks and this machine, and nothing admits link-local and other special addresses"
    )


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_UNICAST and not any(address in network for network in _WRAPPED)


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return address not in _METADATA and any(address in network for network in _PRIVATE)


def _written_out(host: str) -> list[str]:
    """The addresses that a host is without any look-up, also in the odd forms that resolvers take
    (2130706433, 0177.0.0.1, 127.1); none for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(sockaddr[0]) for *_, sockaddr in found]
