"""Requests to URLs that users name: which addresses are allowed, and connections to checked
addresses only. A name is resolved once, for the connection, and each of its addresses is checked.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

MAX_URL_CHARACTERS = 2000

_GLOBAL_UNICAST = ip_network("2000::/3")
"""All that is routed on the internet today; what maps or translates to IPv4 is outside of it."""
_WRAPPED = (ip_network("2002::/16"), ip_network("2001::/32"))
"""6to4 and Teredo wrap an IPv4 address that would not be checked."""
_PRIVATE = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128"),
    )
)
_SPECIAL = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)
"""Special, though some versions of Python take them for global: of protocols, of relays that are no
more, of a cloud's own machines, and of examples."""
_METADATA = ip_network("fd00:ec2::/32")
"""Where machines of a cloud read their credentials; the others' lie among link-local addresses."""


class AddressRefusedError(Exception):
    """The service does not call this; the message says why."""


def check_url(url: str, *, allow_private: bool) -> httpx.URL:
    """A URL that may be called, judged without resolving its name. Raises AddressRefusedError,
    whose message follows the field's name."""
    if len(url) > MAX_URL_CHARACTERS:
        raise AddressRefusedError(f"has more than {MAX_URL_CHARACTERS} characters")
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressRefusedError(f"is no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise AddressRefusedError("must begin with https:// or http://, and name a host")
    if port is not None and not 1 <= port <= 65535:
        raise AddressRefusedError(f"has the port {port}; ports are 1 to 65535")
    if parsed.userinfo:
        raise AddressRefusedError("must not hold a user or password; deliveries are signed instead")
    if parsed.fragment or "#" in url:
        raise AddressRefusedError("must not have a fragment, which would never be sent")
    name = host.rstrip(".").lower()
    if not allow_private and (name == "localhost" or name.endswith(".localhost")):
        raise AddressRefusedError("names this machine; give an address that others can reach")
    for address in _written_out(host):
        check_address(address, allow_private=allow_private)
    return parsed


def check_address(text: str, *, allow_private: bool) -> None:
    """Raises AddressRefusedError for an address off the public internet; `allow_private` admits
    loopback and private networks."""
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressRefusedError(f"{text!r} is no address") from None
    is_private = address not in _METADATA and any(address in network for network in _PRIVATE)
    if _is_open(address) or (allow_private and is_private):
        return
    raise AddressRefusedError(
        f"{text} is not on the open internet; FEDAUDIT_WEBHOOKS_ALLOW_PRIVATE=true admits private "
        "networks and this machine, and nothing admits link-local and other special addresses"
    )


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_UNICAST and not any(address in network for network in _WRAPPED)


def _written_out(host: str) -> list[str]:
    """The addresses that a host is without any look-up, also in the odd forms that resolvers take
    (2130706433, 0177.0.0.1, 127.1); none for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(sockaddr[0]) for *_, sockaddr in found]


_MAX_ANSWER_BYTES = 1024
_MAX_ADDRESSES = 8
_CONNECT_SECONDS = 5.0


class UnansweredError(Exception):
    """No response; the message says why."""


def post(
    url: str, *, headers: dict[str, str], body: bytes, seconds: float, allow_private: bool
) -> int:
    """Send a POST request once, without redirects or proxy; returns the answer's status. `seconds`
    bounds everything after the name look-up. Raises UnansweredError, AddressRefusedError."""
    parsed = check_url(url, allow_private=allow_private)
    host, port = parsed.raw_host.decode("ascii"), parsed.port or _PORTS[parsed.scheme]
    try:
        addresses = _resolve(host, port)[:_MAX_ADDRESSES]
    except (OSError, UnicodeError) as error:
        raise UnansweredError(f"the name {host} was not resolved: {error}") from None
    for address in addresses:
        # One that is refused among others is how a name would be made to change its mind.
        check_address(address, allow_private=allow_private)
    sent = {"Host": parsed.netloc.decode("ascii"), **headers}
    try:
        return asyncio.run(_posted(parsed, addresses, headers=sent, body=body, seconds=seconds))
    except (TimeoutError, httpx.TimeoutException):
        raise UnansweredError(f"no whole answer within {seconds:g} s") from None
    except (httpx.HTTPError, OSError) as error:
        reason: BaseException = error
        # The libraries around it say no more than that it failed.
        while (inner := reason.__cause__ or reason.__context__) is not None:
            reason = inner
        raise UnansweredError(f"{type(reason).__name__}: {reason}") from None


async def _posted(
    url: httpx.URL,
    addresses: Sequence[str],
    *,
    headers: dict[str, str],
    body: bytes,
    seconds: float,
) -> int:
    """The status from the first address that takes a connection. One deadline for all of it: a peer
    that sends a byte now and then does not move it."""
    failure: httpx.TransportError = httpx.ConnectError("the name has no address")
    # The usual authorities, and those of SSL_CERT_FILE; none are read where none are asked.
    verify = httpx.create_ssl_context() if url.scheme == "https" else False
    timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
    # The certificate is that of the name, whichever of its addresses is called.
    named = {"sni_hostname": url.raw_host.decode("ascii")}
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(verify=verify, timeout=timeout, trust_env=False) as client,
    ):
        for address in addresses:
            place = url.copy_with(host=address)
            request = client.build_request(
                "POST", place, headers=headers, content=body, extensions=named
            )
            try:
                answer = await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
                continue
            # Read to some length, so that its sender sees it taken; nothing of it is kept.
            read = 0
            async for piece in answer.aiter_raw():
                read += len(piece)
                if read >= _MAX_ANSWER_BYTES:
                    break
            await answer.aclose()
            return answer.status_code
    raise failure


_PORTS = {"http": 80, "https": 443}


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
