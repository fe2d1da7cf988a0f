"""What the service is never made to call, however it is written, resolved or redirected."""

import ipaddress
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NoReturn
from unittest.mock import patch

import httpcore
import pytest

from infrastructure import outbound
from infrastructure.outbound import (
    AddressRefusedError,
    UnansweredError,
    check_address,
    check_url,
    post,
)
from tests.infrastructure.certificates import self_signed
from tests.workers.receiver import Receiver, receiving

PUBLIC = "93.184.215.14"
INNER = ("127.0.0.1", "::1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "fc00::1", "fd12::1")
"""Admitted where private networks are."""
NEVER = (
    *("0.0.0.0", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.64.0.1"),
    *("100.100.100.200", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "ff02::1", "ff0e::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    *("::ffff:93.184.215.14", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1"),
    *("2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1"),
)
_NETWORKS = (
    *("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "100.64.0.0/10"),
    *("224.0.0.0/4", "240.0.0.0/4", "1000::/4", "4000::/2"),
)
SPECIAL = [
    str(network[place])
    for network in map(ipaddress.ip_network, _NETWORKS)
    for place in (1, network.num_addresses // 3, network.num_addresses - 2)
]
"""In every special network of the registries."""
WRITTEN_OTHERWISE = (
    *("http://127.0.0.1/", "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.1/"),
    *("http://127.1/", "http://0/", "http://[::1]/", "http://[::ffff:127.0.0.1]:8080/"),
    *("http://[::ffff:7f00:1]/", "http://169.254.169.254/latest/meta-data/", "http://localhost/"),
    *("http://LOCALHOST./", "http://hooks.localhost:6379/", "http://127。0。0。1/"),
)


@pytest.mark.parametrize("allow_private", [False, True])
def test_only_the_open_internet_is_called(allow_private: bool) -> None:
    public = (PUBLIC, "8.8.8.8", "2606:4700::1111")
    for address in (*public, *(INNER if allow_private else ())):
        check_address(address, allow_private=allow_private)
    for address in (*SPECIAL, *NEVER, *(() if allow_private else INNER)):
        with pytest.raises(AddressRefusedError):
            check_address(address, allow_private=allow_private)
    for url in () if allow_private else WRITTEN_OTHERWISE:
        with pytest.raises(AddressRefusedError):
            check_url(url, allow_private=False)
    check_url("https://hooks.example.org:8443/a?b=c", allow_private=allow_private)
    for url, said in (("http://a.org:0/", "port 0"), ("http://a.org:99999/", "1 to 65535")):
        with pytest.raises(AddressRefusedError, match=said):
            check_url(url, allow_private=allow_private)


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked(monkeypatch):
    connected: list[str] = []

    async def connect(_self: object, host: str, *_: object, **__: object) -> NoReturn:
        connected.append(host)
        raise httpcore.ConnectError("no network here")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    answers = [[PUBLIC], ["127.0.0.1"], ["169.254.169.254"], [PUBLIC, "10.0.0.1"]]
    asked: list[str] = []

    def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return answers.pop(0)

    monkeypatch.setattr(outbound, "_resolve", resolve)
    options = {"headers": {}, "body": b"{}", "seconds": 5.0, "allow_private": False}
    with pytest.raises(UnansweredError):
        post("http://changes.example.org/", **options)
    assert (asked, connected) == (["changes.example.org"], [PUBLIC])
    # The name's next addresses are refused before anything is connected, one among others too.
    while answers:
        with pytest.raises(AddressRefusedError):
            post("http://changes.example.org/", **options)
    assert connected == [PUBLIC]


def test_the_name_is_kept_in_the_request_and_no_proxy_is_asked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with receiving() as receiver:
        assert _post_to(receiver, "hooks.example.org") == 204
        [(headers, body)] = receiver.received
        assert headers["host"].startswith("hooks.example.org:")
        assert body == b"{}"
        receiver.answers = [302]
        assert _post_to(receiver, "hooks.example.org") == 302
        assert len(receiver.received) == 2


def _post_to(receiver: Receiver, name: str) -> int:
    url = receiver.url.replace("127.0.0.1", name)
    # Nothing listens at the first.
    with patch.object(outbound, "_resolve", return_value=["127.0.0.2", "127.0.0.1"]):
        return post(url, headers={}, body=b"{}", seconds=10.0, allow_private=True)


def test_the_certificate_is_that_of_the_name(tmp_path, monkeypatch):
    cert, key = self_signed(tmp_path, "hooks.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with receiving(tls=context) as receiver:
        assert _post_to(receiver, "hooks.example.org") == 204
        with pytest.raises(UnansweredError, match="certificate"):
            _post_to(receiver, "others.example.org")
        assert len(receiver.received) == 1


_LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(2000)


@pytest.mark.parametrize(("begun", "status"), [(b"", None), (_LONG, 200)])
def test_a_peer_that_never_ends_is_not_waited_for(begun: bytes, status: int | None) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(begun)
                while not stop.wait(0.05):
                    try:
                        peer.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        with nullcontext() if status else pytest.raises(UnansweredError):
            url = f"http://127.0.0.1:{port}/"
            found = post(url, headers={}, body=b"{}", seconds=0.5, allow_private=True)
            assert found == status
        stop.set()
        thread.join()
